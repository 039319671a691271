"""The program's manual, read off its own help: man pages, completion for bash, and pages for the site.

    python3 experiments/manual.py --out build/manual [--program build/bin/batchless]

    man/man1/batchless.1, batchless-COMMAND.1   by help2man; left out where there is none
    bash-completion/completions/batchless       commands, their options, and files
    pages/COMMAND.md                            for figures/site
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

COMPLETION = """\
# Completion of batchless for bash.
_batchless() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}} words
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "{commands} --help --version --json" -- "$current")
    return
  fi
  case $command in
{cases}
  *) words="--help" ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o default -F _batchless batchless
"""


def help_of(program: str, *command: str) -> str:
    return subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout


def section(text: str, title: str) -> str:
    """The lines under `Title:` up to the next empty line."""
    found = re.search(rf"^{title}:\n(.*?)(?:\n\n|\Z)", text, re.S | re.M)
    return found.group(1) if found else ""


def commands(text: str) -> dict[str, str]:
    """Each command and its line."""
    return dict(re.findall(r"^  (\S+) +(.*)", section(text, "Commands"), re.M))


def options(text: str) -> list[str]:
    return re.findall(r"^  (?:-\w,)?(--[\w-]+)", section(text, "Options"), re.M)


def page(name: str, text: str) -> str:
    first, _, rest = text.partition("\n")
    return f"# {name}\n\n{first}.\n\n```text\n{rest.strip()}\n```\n"


def man_page(program: str, out: Path, name: str, line: str) -> None:
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    words = [program, name] if name else [program]
    title = f"batchless-{name}" if name else "batchless"
    subprocess.run(
        [
            "help2man", "--no-info", "--no-discard-stderr", f"--name={line}",
            f"--version-string={version.splitlines()[0].split()[-1]}", "--help-option=--help",
            f"--output={out / title}.1", " ".join(words),
        ],
        check=True,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--program", default="build/bin/batchless")
    given = parser.parse_args()
    pages, man = given.out / "pages", given.out / "man/man1"
    completions = given.out / "bash-completion/completions"
    shutil.rmtree(given.out, ignore_errors=True)
    for folder in (pages, man, completions):
        folder.mkdir(parents=True)

    root = help_of(given.program)
    listed = commands(root)
    texts = {name: help_of(given.program, name) for name in listed}
    for name, text in texts.items():
        (pages / f"{name}.md").write_text(page(name, text), encoding="utf-8")
    cases = "\n".join(f'  {name}) words="{" ".join(options(text))}" ;;' for name, text in texts.items())
    script = COMPLETION.format(commands=" ".join(listed), cases=cases)
    (completions / "batchless").write_text(script, encoding="utf-8")
    if shutil.which("help2man"):
        man_page(given.program, man, "", root.splitlines()[0])
        for name, line in listed.items():
            man_page(given.program, man, name, line)
    else:
        print("manual: no man pages, there is no help2man", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
