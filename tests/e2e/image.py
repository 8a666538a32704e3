#!/usr/bin/python3
"""Makes an image of one program, without a registry: a docker-archive that `ctr images import` reads.

usage: image.py OUT.tar NAME:TAG PROGRAM

The shared libraries that the program needs come with it, at the paths that it looks for them.
"""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile


def add(tar, name, data):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    entry.mode = 0o755
    tar.addfile(entry, io.BytesIO(data))


def libraries(program):
    """The program's shared libraries and its loader, as absolute paths; none of a static program."""
    result = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return re.findall(r"(/\S+) \(0x", result.stdout)


def layer(program):
    files = {"usr/local/bin/" + os.path.basename(program): program}
    files.update((path.lstrip("/"), path) for path in libraries(program))
    directories = {"usr/local/bin", "tmp", "etc", "var/log", *map(os.path.dirname, files)}
    for name in list(directories):
        while name := os.path.dirname(name):
            directories.add(name)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in sorted(directories):
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.DIRTYPE
            entry.mode = 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        for name, path in files.items():
            with open(path, "rb") as file:
                add(tar, name, file.read())
    return out.getvalue()


def main(out, reference, program):
    content = layer(program)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Entrypoint": ["/usr/local/bin/" + os.path.basename(program)],
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]},
        "history": [{"created_by": "image.py"}],
    }
    config = json.dumps(config).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": [reference], "Layers": ["layer.tar"]}]
    with tarfile.open(out, "w") as tar:
        add(tar, config_name, config)
        add(tar, "layer.tar", content)
        add(tar, "manifest.json", json.dumps(manifest).encode())


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
