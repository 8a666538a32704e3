#!/usr/bin/python3
"""What a cluster of several control-plane nodes looks like from outside while its nodes are restarted, until SIGTERM.

A client asks the API servers in turn, one every 20 ms, for /readyz, each time on a new connection that is judged by the
cluster's CA and the address; the next is asked whether the one before has answered or not. Beside it the holder of the turn is
read every 100 ms, from whichever API server answers, and every etcd member is asked for its health every 250 ms.

Prints one line of JSON: how often the client asked (`asked`), the longest time between two answers with 200, by whichever server
(`gap`, seconds), for how long each server was away at most (`away`), and two or more at once in all (`together`, seconds), how
often etcd was looked at (`looks`) and had no healthy majority (`minorities`), and who got the turn, when (`turns`: seconds since
the epoch, node or null).

usage: witness.py DIR ADDRESS...     DIR holds ca.crt, admin.pem, etcd-ca.crt, etcd-client.crt and etcd-client.key
"""

import http.client
import json
import signal
import ssl
import sys
import threading
import time

TURN = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/k8s-certs-renew"
PATIENCE = 2  # seconds for one answer
BETWEEN = 0.02  # seconds between two questions of the client


def ask(address, port, context, path):
    """Status and body; None where there is no answer."""
    connection = http.client.HTTPSConnection(address, port, timeout=PATIENCE, context=context)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


class Witness:
    def __init__(self, directory, addresses):
        self.addresses = addresses
        self.anonymous = ssl.create_default_context(cafile=f"{directory}/ca.crt")
        self.admin = ssl.create_default_context(cafile=f"{directory}/ca.crt")
        self.admin.load_cert_chain(f"{directory}/admin.pem")
        self.etcd = ssl.create_default_context(cafile=f"{directory}/etcd-ca.crt")
        self.etcd.load_cert_chain(f"{directory}/etcd-client.crt", f"{directory}/etcd-client.key")
        self.stop = threading.Event()
        self.looks = self.minorities = 0
        self.seen = {address: [] for address in addresses}  # (when, whether it answered)
        self.turns = []  # (when, node or None)

    def client(self, place):
        """Asks one of the servers, each time that it is its turn."""
        address = self.addresses[place]
        due = time.monotonic() + place * BETWEEN
        while not self.stop.wait(max(0, due - time.monotonic())):
            reply = ask(address, 6443, self.anonymous, "/readyz")
            self.seen[address].append((time.monotonic(), reply is not None and reply[0] == 200))
            due = max(due + len(self.addresses) * BETWEEN, time.monotonic())

    def turn(self):
        while not self.stop.is_set():
            for address in self.addresses:
                reply = ask(address, 6443, self.admin, TURN)
                if reply is None or reply[0] not in (200, 404):
                    continue
                spec = json.loads(reply[1])["spec"] if reply[0] == 200 else {}
                node = spec.get("holderIdentity", "").split("/")[0] or None
                if not self.turns or self.turns[-1][1] != node:
                    self.turns.append((time.time(), node))
                break
            self.stop.wait(0.1)

    def members(self):
        while not self.stop.is_set():
            replies = [ask(address, 2379, self.etcd, "/health") for address in self.addresses]
            healthy = sum(reply is not None and reply[0] == 200 for reply in replies)
            self.looks += 1
            self.minorities += healthy <= len(self.addresses) // 2
            self.stop.wait(0.25)

    def absences(self, address):
        """From its first question without an answer to its next answer, each time that it was away."""
        away = None
        for when, good in [*self.seen[address], (time.monotonic(), True)]:
            if not good and away is None:
                away = when
            elif good and away is not None:
                yield away, when
                away = None

    def result(self):
        absences = {address: list(self.absences(address)) for address in self.addresses}
        changes = sorted((when, change) for each in absences.values() for pair in each for when, change in zip(pair, (1, -1)))
        together, now, since = 0, 0, 0
        for when, change in changes:
            together += when - since if now > 1 else 0
            now, since = now + change, when
        answers = sorted(when for seen in self.seen.values() for when, good in seen if good)
        return {
            "asked": sum(map(len, self.seen.values())),
            "gap": max((b - a for a, b in zip(answers, answers[1:])), default=None),
            "away": [max((end - begin for begin, end in each), default=0) for each in absences.values()],
            "together": together,
            "looks": self.looks,
            "minorities": self.minorities,
            "turns": self.turns,
        }


def main(arguments):
    if len(arguments) < 2:
        sys.exit(__doc__)
    witness = Witness(arguments[0], arguments[1:])
    signal.signal(signal.SIGTERM, lambda *_: witness.stop.set())
    threads = [threading.Thread(target=witness.client, args=(place,)) for place in range(len(witness.addresses))]
    threads += [threading.Thread(target=witness.turn), threading.Thread(target=witness.members)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(witness.result()))


if __name__ == "__main__":
    main(sys.argv[1:])
