"""Other machines and surroundings: the command works as elsewhere or refuses by name."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import common

MEGABYTE = 1 << 20


def locale_folder(scratch: Path, name: str) -> str:
    """A folder with the locale, where its source is there to make it from."""
    folder = scratch / "locales"
    folder.mkdir(exist_ok=True)
    language = name.split(".")[0]
    if shutil.which("localedef") is None:
        return ""
    done = subprocess.run(
        ["localedef", "-i", language, "-f", "UTF-8", str(folder / name)], capture_output=True
    )
    return str(folder) if done.returncode == 0 else ""


def surroundings(scratch: Path) -> list[tuple[str, list[str], dict[str, str], str]]:
    """Name, words before the program, environment, remark."""
    nowhere = str(scratch / "nowhere")
    read_only = scratch / "read-only"
    read_only.mkdir()
    read_only.chmod(0o555)
    locales = locale_folder(scratch, "de_DE.UTF-8")
    german = {"LC_ALL": "de_DE.UTF-8", "LOCPATH": locales}
    all_of_them = [
        ("one core", ["taskset", "-c", "0"], {}, ""),
        ("512 MB of address space", ["prlimit", f"--as={512 * MEGABYTE}"], {}, ""),
        ("64 files open at a time", ["prlimit", "--nofile=64"], {}, ""),
        ("no home", [], {"HOME": nowhere}, ""),
        ("read-only home", [], {"HOME": str(read_only)}, ""),
        ("no folder for temporary files", [], {"TMPDIR": nowhere}, ""),
        ("locale C", [], {"LC_ALL": "C"}, ""),
        ("German locale", [], german, "" if locales else "the locale is not installed"),
        ("no environment", ["env", "-i"], {}, ""),
        ("oversubscribed by ten", ["taskset", "-c", "0", "env", "OMP_NUM_THREADS=20"], {}, ""),
    ]
    qemu = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
    if qemu:
        all_of_them += [
            ("AVX2 without AVX-512 (qemu)", [qemu, "-cpu", "Haswell"], {}, ""),
            ("SSE4 without AVX (qemu)", [qemu, "-cpu", "Nehalem"], {}, ""),
        ]
    return [each for each in all_of_them if not each[1] or shutil.which(each[1][0])]


def run(program: Path, scratch: Path) -> list[common.Row]:
    rows = []
    (scratch / "machines").mkdir()
    for folder in ("plain", "with spaces, Größe λ=1/2".replace("/", "∕")):
        place = common.Place(program, scratch / "machines" / folder, samples=40)
        place.must(*place.train("whole"))
        expected = place.result("whole")
        sweep = ("sweep", "--rule", "sc", "--delay", "3", "--momenta", "0.5,0.9", "--rates",
                 "log:1e-3:1:32", "--threads", "4", "--out")  # fmt: skip
        place.must(*sweep, "whole.csv")
        expected_map = (place.folder / "whole.csv").read_bytes()
        if folder != "plain":
            row = common.Row("machines: path with spaces and UTF-8")
            plain = scratch / "machines/plain"
            same = expected == common.Place.result(place, str(plain / "whole"))
            row.count("" if same else "other results", ended_well=True)
            rows.append(row)
            continue
        for name, before, environment, remark in surroundings(scratch):
            row = common.Row(f"machines: {name}", remark=remark)
            rows.append(row)
            place.clear("run", "map.csv")
            for words in (place.train("run"), (*sweep, "map.csv")):
                done = common.call([*before, place.program, *words], place.folder, **environment)
                problem = common.refusal_problem(done)
                row.count(f"{words[0]}: {problem}" if problem else "", done.code == 0)
                if done.code != 0:
                    row.remark += done.error.strip().splitlines()[-1][:100]
            if (place.folder / "run/summary.json").exists() and place.result("run") != expected:
                # Vectors of another length sum in another order: said, where it is so.
                row.remark += "other bits of the weights"
                if "qemu" not in name:
                    row.lost.append("other results")
            made = place.folder / "map.csv"
            if made.exists() and made.read_bytes() != expected_map:
                row.remark += " other bits of the map"
                if "qemu" not in name:
                    row.lost.append("another map")
    return rows
