#!/usr/bin/python3
"""What a control-plane node has besides systemd and kubeadm, in one file, for the container of tests/systemd.sh.

kubelet (with the runtime in it) is a service; it starts a process for each static pod of /etc/kubernetes/manifests, and
another one where it is gone. kube-apiserver, kube-controller-manager and kube-scheduler are real processes under their
names, which serve TLS and /readyz, /livez, /healthz as their flags say, and no more of the API than that the node is
alone. crictl and docker ask kubelet through the runtime's socket, as the real ones do, so that what keeps a service from sockets keeps them too.

It acts as what its first argument says, after which it is called, too: see the links and units that systemd.sh makes.
Environment of kubelet: START_DELAY, seconds until runtime and pods are there; RUNTIME=docker, for docker's socket alone.
"""

import datetime
import glob
import json
import os
import secrets
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

MANIFESTS = "/etc/kubernetes/manifests"
SOCKETS = {"crictl": "/run/containerd/containerd.sock", "docker": "/run/docker.sock"}
PAUSE = "k8s.gcr.io/pause:3.2"
NODE = socket.gethostname()


# What a run asks kube-apiserver to know the other control-plane nodes: there is none.
ALONE = {
    "/api/v1/namespaces/default/endpoints/kubernetes": {"apiVersion": "v1", "kind": "Endpoints", "subsets": []},
    "/api/v1/namespaces/kube-system/pods": {"apiVersion": "v1", "kind": "PodList", "items": []},
}


class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.split("?")[0]
        if path in ALONE:
            return self.answer(200, json.dumps(ALONE[path]).encode())
        if path in ("/readyz", "/livez", "/healthz"):
            return self.answer(200, b"ok")
        self.answer(404, b"404 page not found")

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


# --- kubelet, and the runtime


class Pod:
    """The sandbox of a static pod, and its one container."""

    def __init__(self, name, image, command):
        self.name, self.image, self.command = name, image, command
        self.id, self.container = secrets.token_hex(32), secrets.token_hex(32)
        self.created = time.time_ns()
        # python3 under the component's name, as the program looks for processes by that
        self.process = subprocess.Popen([name, __file__, name, *command[1:]], executable="/usr/bin/python3")

    uid = property(lambda self: f"{hash(self.name) & (2**128 - 1):032x}")
    pod = property(lambda self: f"{self.name}-{NODE}")
    labels = property(
        lambda self: {
            "component": self.name,
            "tier": "control-plane",
            "io.kubernetes.pod.name": self.pod,
            "io.kubernetes.pod.namespace": "kube-system",
            "io.kubernetes.pod.uid": self.uid,
        }
    )

    def end(self):
        self.process.kill()
        self.process.wait()


class Kubelet:
    def __init__(self):
        self.pods, self.lock = {}, threading.Lock()

    def sync(self):
        """Starts what a manifest asks for and does not run."""
        for path in glob.glob(f"{MANIFESTS}/*.yaml"):
            name = os.path.basename(path).removesuffix(".yaml")
            with self.lock:
                pod = self.pods.get(name)
                if pod is None or pod.process.poll() is not None:
                    self.pods[name] = Pod(name, *read_manifest(path))

    def remove(self, word):
        for name, pod in list(self.pods.items()):
            if word in (pod.id, pod.container):
                pod.end()
                del self.pods[name]
                return
        raise LookupError(f"not found: {word}")

    def call(self, tool, args):
        with self.lock:
            return getattr(self, tool)(args)

    def crictl(self, args):
        words = [word for word in args if not word.startswith("-")]
        pods = self.pods.values()
        if "pods" in words:
            return json.dumps({"items": [sandbox(pod) for pod in pods]})
        if "ps" in words:
            return json.dumps({"containers": [container(pod) for pod in pods]})
        if "images" in words:
            names = {PAUSE, *(pod.image for pod in pods)}
            return json.dumps({"images": [{"id": f"sha256:{name}", "repoTags": [name]} for name in names]})
        if "info" in words:
            return json.dumps({"config": {"sandboxImage": PAUSE}})
        if "inspectp" in words:
            return json.dumps({"status": {}, "info": {"image": PAUSE}})
        if "rmp" in words:
            self.remove(words[-1])
            return f"Removed sandbox {words[-1]}"
        raise LookupError(f"no help topic for {args}")

    def docker(self, args):
        pods = self.pods.values()
        if args[0] == "ps":
            return "\n".join(json.dumps(line) for pod in pods for line in docker_lines(pod))
        if args[0] == "images":
            names = {PAUSE, *(pod.image for pod in pods)}
            lines = ({"ID": f"sha256:{name}", "Repository": name.split(":")[0], "Tag": name.split(":")[1]} for name in names)
            return "\n".join(json.dumps({**line, "Digest": "<none>"}) for line in lines)
        if args[:2] == ["rm", "-f"]:
            self.remove(args[2])
            return args[2]
        raise LookupError(f"{args[0]} is not a docker command")

    def serve(self, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path):
            os.unlink(path)
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen()
        while True:
            connection, _ = server.accept()
            with connection, connection.makefile("rw") as file:
                try:
                    answer = [0, self.call(*json.loads(file.readline()))]
                except LookupError as error:
                    answer = [1, str(error)]
                file.write(json.dumps(answer) + "\n")


def read_manifest(path):
    """Image and command of the only container; the lists are written by kubeadm, an entry a line."""
    image, command, inside = None, [], False
    with open(path) as file:
        for line in map(str.strip, file):
            if line.startswith("image: "):
                image = line.removeprefix("image: ")
            if inside and line.startswith("- "):
                command.append(line.removeprefix("- "))
            else:
                inside = line == "- command:" or (inside and not line)
    return image, command


def sandbox(pod):
    return {
        "id": pod.id,
        "metadata": {"name": pod.pod, "uid": pod.uid, "namespace": "kube-system", "attempt": 0},
        "state": "SANDBOX_READY",
        "createdAt": str(pod.created),
        "labels": pod.labels,
        "annotations": {"kubernetes.io/config.source": "file"},
    }


def container(pod):
    return {
        "id": pod.container,
        "podSandboxId": pod.id,
        "metadata": {"name": pod.name, "attempt": 0},
        "image": {"image": pod.image},
        "imageRef": pod.image,
        "state": "CONTAINER_RUNNING" if pod.process.poll() is None else "CONTAINER_EXITED",
        "createdAt": str(pod.created),
    }


def docker_lines(pod):
    labels = {**pod.labels, "annotation.kubernetes.io/config.source": "file"}
    created = datetime.datetime.fromtimestamp(pod.created / 1e9, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
    for name, id, image, more in (
        ("POD", pod.id, PAUSE, {}),
        (pod.name, pod.container, pod.image, {"io.kubernetes.sandbox.id": pod.id}),
    ):
        yield {
            "ID": id,
            "Names": f"k8s_{name}_{pod.pod}_kube-system_{pod.uid}_0",
            "Image": image,
            "Status": "Up 2 minutes",
            "CreatedAt": created,
            "Labels": ",".join(f"{key}={value}" for key, value in {**labels, **more}.items()),
        }


def kubelet():
    health = HTTPServer(("127.0.0.1", 10248), Health)
    threading.Thread(target=health.serve_forever, daemon=True).start()
    time.sleep(float(os.environ.get("START_DELAY", 0)))
    node = Kubelet()
    path = SOCKETS["docker" if os.environ.get("RUNTIME") == "docker" else "crictl"]
    threading.Thread(target=node.serve, args=(path,), daemon=True).start()
    while True:
        node.sync()
        time.sleep(0.2)


def ask(tool):
    """crictl and docker."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(SOCKETS[tool])
        with connection.makefile("rw") as file:
            file.write(json.dumps([tool, sys.argv[1:]]) + "\n")
            file.flush()
            code, text = json.loads(file.readline())
    print(text, file=sys.stderr if code else sys.stdout)
    return code


# --- the components


def flag(name, default=None):
    return next((word.split("=", 1)[1] for word in sys.argv if word.startswith(f"--{name}=")), default)


def context(certificate, key):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate, key)
    if flag("client-ca-file"):
        made.load_verify_locations(flag("client-ca-file"))
        made.verify_mode = ssl.CERT_OPTIONAL
    return made


def in_memory(cn, san):
    """A certificate that is in no file, as components make one at their start."""
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = f"{directory}/certificate", f"{directory}/key"
        names = ["-subj", f"/CN={cn}@{int(time.time())}", "-addext", f"subjectAltName=DNS:{san}"]
        request = "openssl req -x509 -days 365 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256".split()
        subprocess.run([*request, *names, "-keyout", key, "-out", certificate], check=True, stderr=subprocess.DEVNULL)
        return context(certificate, key)


def component(port):
    is_apiserver = flag("tls-cert-file") is not None
    name = "apiserver-loopback-client" if is_apiserver else "localhost"
    own = in_memory(name, name)
    server = HTTPServer((flag("bind-address", "0.0.0.0"), int(flag("secure-port", port))), Health)
    while True:
        connection, _ = server.socket.accept()
        # files are read anew for each connection, as kube-apiserver does
        shown = context(flag("tls-cert-file"), flag("tls-private-key-file")) if is_apiserver else own

        def choose(connection, sni, _, own=own):
            if sni == "apiserver-loopback-client":
                connection.context = own

        shown.sni_callback = choose
        threading.Thread(target=answer, args=(connection, shown, server), daemon=True).start()


def answer(connection, shown, server):
    connection.settimeout(5)
    try:
        with shown.wrap_socket(connection, server_side=True) as secured:
            Health(secured, secured.getpeername(), server)
    except OSError:
        pass


def main():
    called = os.path.basename(sys.argv[0])
    if called in SOCKETS:
        try:
            return ask(called)
        except OSError as error:
            print(f"{SOCKETS[called]}: {error}", file=sys.stderr)
            return 1
    ports = {"kube-apiserver": 6443, "kube-controller-manager": 10257, "kube-scheduler": 10259}
    return kubelet() if sys.argv[1] == "kubelet" else component(ports[sys.argv[1]])


sys.exit(main())
