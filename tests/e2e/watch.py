#!/usr/bin/python3
"""Runs a command on a node while it asks kube-apiserver's /readyz every 10 ms, each time on a new connection.

Prints one line of JSON: the longest time without a 200 (`outage`, seconds), what the command took, its exit code and
highest resident memory (`memory`, KiB), and, if WORDS are given, how long after the first 200 that followed the outage the
command had written a line with WORDS (`seen`; about 0.02 s of it may be the watcher's own coarseness, either way).

usage: watch.py [--seen WORDS] COMMAND...
"""

import json
import socket
import ssl
import subprocess
import sys
import threading
import time

ADDRESS = ("127.0.0.1", 6443)
PAUSE = 0.01
PATIENCE = 120  # seconds until the API must be back
CALM = 2  # seconds of good answers that end the watch


def ready(context):
    """Whether /readyz answers 200 now."""
    try:
        with socket.create_connection(ADDRESS, timeout=1) as plain, context.wrap_socket(plain) as tls:
            tls.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return tls.recv(64).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False


def memory(pid):
    """Highest resident memory so far, in KiB; 0 once the process has ended."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return next((int(line.split()[1]) for line in status if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


class Watch:
    def __init__(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self.good = []  # when a 200 had come
        self.context = context
        self.stop = False

    def run(self):
        while not self.stop:
            if ready(self.context):
                self.good.append(time.monotonic())
            time.sleep(PAUSE)

    def calm_since(self, moment):
        """Whether answers have been good for a while, with the command's end at `moment`."""
        now = time.monotonic()
        recent = [t for t in self.good if t > now - CALM]
        gaps = [b - a for a, b in zip([now - CALM, *recent], [*recent, now])]
        return now > moment + CALM and max(gaps) < 0.5


def main(arguments):
    words = None
    if arguments[:1] == ["--seen"]:
        words, arguments = arguments[1], arguments[2:]
    if not arguments:
        sys.exit(__doc__)

    watch = Watch()
    thread = threading.Thread(target=watch.run)
    thread.start()
    time.sleep(1)
    start = time.monotonic()
    command = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []  # (when, line)

    def read():
        for line in command.stdout:
            lines.append((time.monotonic(), line))

    reader = threading.Thread(target=read)
    reader.start()
    highest = 0
    while command.poll() is None:
        highest = max(highest, memory(command.pid))
        time.sleep(PAUSE)
    end = time.monotonic()
    reader.join()
    while not watch.calm_since(end) and time.monotonic() < end + PATIENCE:
        time.sleep(PAUSE)
    watch.stop = True
    thread.join()

    outage, back = max((b - a, b) for a, b in zip(watch.good, watch.good[1:]))
    result = {"outage": outage, "took": end - start, "code": command.returncode, "memory": highest}
    if words is not None:
        result["seen"] = next((when - back for when, line in lines if words in line), None)
    if command.returncode not in (0, 10):
        sys.stderr.writelines(line for _, line in lines)
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
