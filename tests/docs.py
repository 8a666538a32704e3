#!/usr/bin/env python3
"""The command blocks of README.md and docs/: each is run by a test, or says why it is not.

  docs.py check          every block with a command in it has a mark, and every mark a meaning
  docs.py script KIND    the blocks that are run in that place, as one bash script: it stops at the first that fails

A mark is a comment on the line before the block, which a reader does not see:

  <!-- run: node -->               on a real control plane, by tests/e2e/run.sh
  <!-- run: booted -->             on a machine with systemd as its first process, by tests/systemd.sh
  <!-- run: outage -->             there too, with certificates that have all expired
  <!-- run: ci -->                 a step of .ci/run
  <!-- run: node; ends with 0 or 1 -->      with other exit codes than 0, of the command that ends the block
  <!-- tried by: NAME -->          what stands there is part of that scenario or script below tests/
  <!-- not run: REASON -->
  <!-- output -->                  what a program prints, or a file's content

A block is run in the directory of its page. In a block with prompts (`$ `, `# `) only the lines behind them are commands; in one without, all are.
"""

import os
import re
import shlex
import subprocess
import sys

KINDS = ("node", "outage", "booted", "ci")
# a block without a mark that has one of these as a line's first word has been forgotten
COMMANDS = {
    "ansible-playbook", "apt", "apt-get", "bash", "cargo", "cp", "crictl", "curl", "docker", "dpkg", "etcdctl", "git", "install",
    "journalctl", "jq", "k8s-certs-renew", "kubeadm", "kubectl", "ls", "mkdir", "mv", "openssl", "rm", "rpm", "ssh", "sudo",
    "systemctl", "tar",
}


class Block:
    def __init__(self, path, line, mark, lines):
        self.path, self.line, self.mark, self.lines = path, line, mark, lines

    def where(self):
        return f"{self.path}:{self.line}"

    def commands(self):
        prompted = [line[2:] for line in self.lines if re.match(r"[$#] \S", line) and first_word(line[2:]) in COMMANDS]
        return prompted or self.lines

    def names_a_command(self):
        return any(first_word(line) in COMMANDS or line.startswith("tests/") for line in self.commands())

    def kind(self):
        """Where it is run, and the exit codes that it may end with."""
        found = re.fullmatch(r"run: (\w+)(?:; ends with (\d+(?: or \d+)*))?", self.mark or "")
        return (found[1], (found[2] or "0").split(" or ")) if found else (None, None)


def first_word(line):
    words = [word for word in line.split() if not re.match(r"[A-Z_]+=", word)]
    return words[0] if words else ""


def blocks(path):
    """The indented and the fenced blocks of a file, with the mark above each."""
    with open(path) as file:
        lines = file.read().split("\n")
    found, mark, at = [], None, 0
    while at < len(lines):
        line = lines[at]
        if comment := re.fullmatch(r"<!-- (.+) -->", line.strip()):
            mark, at = comment[1], at + 1
            continue
        if fence := re.match(r"( *)```", line):
            end = next((n for n in range(at + 1, len(lines)) if lines[n].strip() == "```"), len(lines))
            body = [text.removeprefix(fence[1]) for text in lines[at + 1 : end]]
            found.append(Block(path, at + 1, mark, body))
            mark, at = None, end + 1
            continue
        # a paragraph cannot be interrupted by an indented block
        if line.startswith("    ") and line.strip() and (at == 0 or not lines[at - 1].strip() or mark):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            body = "\n".join(text[4:] for text in lines[at:end]).rstrip().split("\n")
            found.append(Block(path, at + 1, mark, body))
            mark, at = None, end
            continue
        if line.strip():
            mark = None
        at += 1
    return found


def every_block():
    listing = subprocess.run(["git", "ls-files", "README.md", "docs/*.md"], check=True, stdout=subprocess.PIPE, text=True)
    return [block for path in listing.stdout.split() for block in blocks(path)]


def names_below_tests():
    """The scripts, and the functions in them."""
    listing = subprocess.run(["git", "ls-files", "tests/*.sh"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    names = set(listing)
    for path in listing:
        with open(path) as file:
            names.update(re.findall(r"^(\w+)\(\)", file.read(), re.M))
    return names


def complaints(found):
    with open(".ci/run") as file:
        ci = file.read().replace(" --locked", "")
    tests = names_below_tests()
    for block in found:
        kind, _ = block.kind()
        if block.mark is None:
            if block.names_a_command():
                yield f"{block.where()}: '{block.commands()[0]}' is neither run nor marked"
        elif kind == "ci":
            for command in block.commands():
                words = command.split(" #")[0].split()
                if words and " ".join(words) not in ci and f'readme_command "{" ".join(words[:2])}"' not in ci:
                    yield f"{block.where()}: '{command}' is not in .ci/run"
        elif of := re.fullmatch(r"tried by: (\S+)", block.mark):
            if of[1] not in tests:
                yield f"{block.where()}: tests/ has no '{of[1]}'"
        elif kind not in KINDS and block.mark != "output" and not re.fullmatch(r"not run: .{10,}", block.mark):
            yield f"{block.where()}: '{block.mark}' is no mark"


def script(found, kind):
    yield "# made by tests/docs.py from the docs: what stands there, run as it stands there"
    for block in found:
        of, expected = block.kind()
        if of != kind:
            continue
        where, place = shlex.quote(block.where()), shlex.quote(os.path.dirname(block.path) or ".")
        body = shlex.quote("\n".join(block.commands()))
        yield f"echo; echo '===' {where}"
        yield f"code=0; (cd {place} && exec bash -xeuo pipefail -c {body}) </dev/null || code=$?"
        yield f"case $code in {' | '.join(expected)}) ;; *) echo {where}: ended with $code, not {' or '.join(expected)} >&2; exit 1 ;; esac"


def main(words):
    found = every_block()
    if words == ["check"]:
        bad = list(complaints(found))
        runs = [block for block in found if block.kind()[0]]
        print("\n".join(bad) or f"{len(found)} blocks: {len(runs)} are run, the others say why not")
        return bool(bad)
    if len(words) == 2 and words[0] == "script" and words[1] in KINDS:
        print("\n".join(script(found, words[1])))
        return 0
    print(__doc__, file=sys.stderr)
    return 64


sys.exit(main(sys.argv[1:]))
