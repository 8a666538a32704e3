#!/usr/bin/python3
"""Makes an image of one static program, without a registry: a docker-archive that `ctr images import` reads.

usage: image.py OUT.tar NAME:TAG PROGRAM
"""

import hashlib
import io
import json
import os
import sys
import tarfile


def add(tar, name, data):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    entry.mode = 0o755
    tar.addfile(entry, io.BytesIO(data))


def layer(program):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("usr", "usr/local", "usr/local/bin", "tmp", "etc", "var", "var/log"):
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.DIRTYPE
            entry.mode = 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        with open(program, "rb") as file:
            add(tar, "usr/local/bin/" + os.path.basename(program), file.read())
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
