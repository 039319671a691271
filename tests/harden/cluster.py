"""The training job under a Slurm of one node that is started here: queued, preempted, cancelled, told to stop."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import common

COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch", "srun")
TASKS = 2
# Long enough to be met while it runs.
SAMPLES = 200
SETTINGS = ("--set", "run.epochs=400", "--set", "run.checkpoint_every_samples=1000",
            "--set", "run.watchdog_seconds=300")  # fmt: skip
CONFIGURATION = """ClusterName=batchless
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
# A job that is requeued waits until its credentials have expired, two minutes otherwise.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={port}
SlurmdPort={node_port}
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,batch_sched_delay=1
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={tasks} State=UNKNOWN
PartitionName=low Nodes={host} Default=YES PriorityTier=1 GraceTime=20 State=UP
PartitionName=high Nodes={host} PriorityTier=10 PreemptMode=OFF State=UP
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Cluster:
    """Slurm's two daemons and the one that their messages are signed by, for as long as a `with` lasts."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.daemons: list[subprocess.Popen] = []
        self.works = False  # in containers that forbid more it may not
        for name in ("state", "spool", "munge"):
            (folder / name).mkdir(parents=True)
        os.chmod(folder / "munge", 0o700)
        key = folder / "munge/key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        self.configuration = folder / "slurm.conf"
        self.configuration.write_text(
            CONFIGURATION.format(
                folder=folder, host=socket.gethostname(), port=free_port(),
                node_port=free_port(), tasks=TASKS,
            ),
            encoding="utf-8",
        )  # fmt: skip
        self.environment = os.environ | {"SLURM_CONF": str(self.configuration)}

    def start(self, *words: str) -> None:
        log = (self.folder / f"{words[0]}.log").open("wb")
        self.daemons.append(
            subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                             stderr=log)
        )  # fmt: skip

    def __enter__(self) -> Cluster:
        at = str(self.folder)
        self.start("munged", "--foreground", "--force", f"--socket={at}/munge.socket",
                   f"--key-file={at}/munge/key", f"--pid-file={at}/munge/pid",
                   f"--log-file={at}/munge/log", f"--seed-file={at}/munge/seed")  # fmt: skip
        self.until(lambda: (self.folder / "munge.socket").exists(), 20)
        self.start("slurmctld", "-D", "-c")
        self.start("slurmd", "-D")
        self.works = self.until(lambda: "idle" in self.call("sinfo", "-h", "-o", "%T").stdout, 60)
        return self

    def __exit__(self, *_) -> None:
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def call(self, *words: str, **more) -> subprocess.CompletedProcess:
        return subprocess.run(
            words, env=self.environment | more.pop("variables", {}), capture_output=True, text=True,
            errors="replace", timeout=common.HANG_SECONDS, **more,
        )  # fmt: skip

    def field(self, job: str, name: str) -> str | None:
        """What Slurm says of a job; None where it has forgotten it."""
        for word in self.call("scontrol", "show", "job", job).stdout.split():
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
        return None

    def state(self, job: str) -> str:
        return self.field(job, "JobState") or "GONE"

    def until(self, condition: Callable[[], bool], seconds: float = common.HANG_SECONDS) -> bool:
        deadline = common.Deadline(seconds)
        while not deadline.passed():
            if condition():
                return True
            time.sleep(0.1)
        return False


class Job:
    """experiments/train.sbatch in the folder `out` of a place."""

    def __init__(self, cluster: Cluster, place: common.Place, out: str):
        self.cluster, self.place, self.out = cluster, place, out
        self.log = place.folder / f"{out}.log"
        self.number = ""

    def submit(self) -> None:
        words = ["sbatch", "--parsable", f"--ntasks={TASKS}", "--cpus-per-task=1", "--time=10"]
        words += ["--requeue", "--open-mode=append", f"--output={self.log}"]
        words += [str(common.ROOT / "experiments/train.sbatch"), "run.toml", self.out, *SETTINGS]
        done = self.cluster.call(
            *words, cwd=self.place.folder, variables={"BATCHLESS": self.place.program}
        )
        self.number = done.stdout.strip()
        if done.returncode != 0:
            raise SystemExit(f"harden: sbatch: {done.stderr}")

    def is_(self, *states: str) -> bool:
        return self.cluster.state(self.number) in states

    def begin(self) -> str:
        """Submits it and waits until the run is on its way; what is wrong where it is not."""
        self.submit()
        folder = self.place.folder / self.out

        def has_begun() -> bool:
            log = folder / "metrics.csv"
            rows = log.read_bytes().count(b"\n") if log.exists() else 0
            return (folder / "checkpoint").exists() and rows > 2

        begun = self.cluster.until(lambda: self.is_("RUNNING") and has_begun())
        return "" if begun else f"did not start: {self.said()}"

    def problem(self, expected: tuple) -> str:
        """What is wrong when the job has ended, which should be with the same bits."""
        ends = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "GONE")
        if not self.cluster.until(lambda: self.is_(*ends)):
            return f"still {self.cluster.state(self.number)}: {self.said()}"
        if not self.is_("COMPLETED"):
            return f"{self.cluster.state(self.number)}: {self.said()}"
        return "" if self.place.result(self.out) == expected else "other results"

    def went_on(self) -> str:
        manifest = json.loads((self.place.folder / self.out / "manifest.json").read_text())
        return "" if manifest["resumed_from_sample"] > 0 else "began anew"

    def said(self) -> str:
        return repr(self.log.read_text(errors="replace")[-300:]) if self.log.exists() else "nothing"

    def restarts(self) -> int:
        return int(self.cluster.field(self.number, "Restarts") or 0)


def queued(cluster: Cluster, job: Job, expected: tuple) -> str:
    """A job that finds the node taken."""
    other = cluster.call("sbatch", "--parsable", f"--ntasks={TASKS}", "--output=/dev/null", "--time=20",
                         "--wrap=sleep 1000").stdout.strip()  # fmt: skip
    cluster.until(lambda: cluster.state(other) == "RUNNING")
    job.submit()
    waited = job.is_("PENDING")
    cluster.call("scancel", other)
    return job.problem(expected) if waited else "did not wait for the node"


def stopped(cluster: Cluster, job: Job, expected: tuple) -> str:
    """The signal that Slurm sends before the time is up: a checkpoint, and the job queues itself."""
    if problem := job.begin():
        return problem
    cluster.call("scancel", "--signal=TERM", job.number)
    problem = job.problem(expected)
    problem = problem or ("" if job.restarts() == 1 else f"{job.restarts()} restarts")
    return problem or job.went_on()


def preempted(cluster: Cluster, job: Job, expected: tuple) -> str:
    """A job of another partition takes the node in the middle of the run."""
    if problem := job.begin():
        return problem
    other = cluster.call("sbatch", "--parsable", f"--ntasks={TASKS}", "--partition=high", "--time=1",
                         "--output=/dev/null", "--wrap=sleep 1").stdout.strip()  # fmt: skip
    if not cluster.until(lambda: cluster.state(other) in ("RUNNING", "COMPLETED")):
        return f"was not preempted: {cluster.state(job.number)}"
    problem = job.problem(expected)
    problem = problem or ("" if job.restarts() >= 1 else "was not queued again")
    return problem or job.went_on()


def cancelled(cluster: Cluster, job: Job, expected: tuple) -> str:
    """Cancelled in the middle; the same command submitted once more goes on."""
    if problem := job.begin():
        return problem
    cluster.call("scancel", job.number)
    if not cluster.until(lambda: job.is_("CANCELLED")):
        return f"cancelled, and {cluster.state(job.number)}"
    if problem := common.folder_problem(job.place.folder / job.out):
        return problem
    job.submit()
    return job.problem(expected) or job.went_on()


def run(program: Path, scratch: Path) -> list[common.Row]:
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        why = f"{', '.join(missing)} missing" if missing else "Slurm's daemons want to be root's"
        return [common.Row("cluster", remark=f"not tried: {why}")]
    place = common.Place(program, scratch / "cluster", samples=SAMPLES)
    place.must(*place.train("whole", *SETTINGS))
    expected = place.result("whole")
    rows = []
    with Cluster(scratch / "slurm") as cluster:
        if not cluster.works:
            return [common.Row("cluster", remark="not tried: Slurm does not start here")]
        for way in (queued, stopped, preempted, cancelled):
            row = common.Row(f"cluster: {way.__name__}")
            rows.append(row)
            begin = time.monotonic()
            row.count(way(cluster, Job(cluster, place, way.__name__), expected), ended_well=True)
            row.remark = f"{time.monotonic() - begin:.0f} s"
    return rows
