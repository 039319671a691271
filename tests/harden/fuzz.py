"""Every reader against libFuzzer, from the seeds on, as many at once as there are processors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import common

LIMITS = ["-timeout=20", "-rss_limit_mb=1500", "-malloc_limit_mb=256", "-max_len=65536"]


def run_target(target: Path, work: Path, seconds: float) -> common.Row:
    name = target.name.removeprefix("fuzz_")
    corpus, found = work / "corpus" / name, work / "found" / name
    corpus.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    words = [str(target), str(corpus), str(work / "seeds" / name), *LIMITS, "-print_final_stats=1"]
    words += ["-use_value_profile=1", f"-max_total_time={int(seconds)}", f"-artifact_prefix={found}/"]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", cwd=work)
    (work / f"{name}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    row = common.Row(f"fuzz: {name}")
    executed = re.search(r"stat::number_of_executed_units: +(\d+)", done.stderr)
    covered = re.findall(r"cov: (\d+)", done.stderr)
    row.tried = int(executed[1]) if executed else 0
    row.survived = row.tried
    row.remark = f"{covered[-1] if covered else 0} edges covered in {int(seconds)} s"
    if done.returncode != 0:
        kind = re.search(r"SUMMARY: (.*)", done.stderr)
        artifact = re.search(r"Test unit written to (\S+)", done.stderr)
        row.survived = max(row.tried - 1, 0)
        row.lost.append(f"{kind[1] if kind else 'failed'}: {artifact[1] if artifact else work}")
    return row


def run(program: Path, targets: Path, work: Path, seconds: float) -> list[common.Row]:
    work.mkdir(parents=True, exist_ok=True)
    make_seeds = common.ROOT / "tests/fuzz/make_seeds.py"
    subprocess.run([sys.executable, str(make_seeds), str(program), str(work / "seeds")], check=True)
    all_of_them = sorted(targets.glob("fuzz_*"))
    at_once = min(len(os.sched_getaffinity(0)), len(all_of_them))
    each = seconds * at_once / len(all_of_them)
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda target: run_target(target, work, each), all_of_them))
