"""qsub, qstat, qdel, qsig, qselect, pbsnodes and pbs_tmrsh of a PBS that answers only what was recorded of a real one.

usage: python pbs_standin.py FOLDER COMMAND ARGUMENT...

Replayed from OpenPBS 23.06.06 (tests/transcripts/pbs). Every document printed is a recorded one, in which ids, names,
paths, hosts, times and amounts are replaced; anything that was not recorded fails, and is noted in FOLDER/unrecorded.
The command of a job is really run, as a session of this machine: TERM, then KILL, as pbs_mom does it.

FOLDER/first-only: as releases since December 2023 (commit cd7ab5eda), whose JSON has only the first of several jobs.
FOLDER/no-history: as a server without job_history_enable: a job that is over is unknown at once.
FOLDER/down: the server does not answer.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeAlias

Job: TypeAlias = dict[str, Any]
Record: TypeAlias = dict[str, Any]
Program: TypeAlias = "subprocess.Popen[bytes]"

RECORDED = Path(__file__).parent / "transcripts" / "pbs"
SERVER = "pbssrv"
HOSTS = {"pn1": ("pn1", 8, 4), "pn2": ("pn2[0]", 8, 4)}
"""Host -> the vnode named for it, CPUs, GPUs."""
KILL_DELAY_S = 2.0
"""10 s in the recordings."""
FOLDER = Path("/nonexistent")


# The recordings


def recorded(case: str, command: str, number: int = 0) -> Record:
    steps = json.loads((RECORDED / f"{case}.json").read_text())["steps"]
    return [step for step in steps if step.get("command") == command][number]


def answer(case: str, command: str, number: int = 0, **replaced: str) -> NoReturn:
    """Say what was recorded, and end as it did."""
    step = recorded(case, command, number)
    say(step["stdout"], step["stderr"], **replaced)
    sys.exit(step["exit_code"])


def say(out: str, err: str = "", **replaced: str) -> None:
    for old, new in replaced.items():
        out, err = out.replace(old, new), err.replace(old, new)
    sys.stdout.write(out)
    sys.stderr.write(err)


def unrecorded(words: list[str]) -> NoReturn:
    with (FOLDER / "unrecorded").open("a") as notes:
        notes.write(" ".join(words) + "\n")
    sys.stderr.write(f"not recorded: {' '.join(words)}\n")
    sys.exit(99)


def record_of(case: str, command: str, id_: int) -> Record:
    return json.loads(recorded(case, command)["stdout"])["Jobs"][f"{id_}.{SERVER}"]


# The state: one file for each job


@contextmanager
def locked() -> Iterator[None]:
    with (FOLDER / "state" / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def load(id_: int) -> Job:
    return json.loads((FOLDER / "state" / f"{id_}.json").read_text())


def save(job: Job) -> None:
    path = FOLDER / "state" / f"{job['id']}.json"
    path.with_suffix(".new").write_text(json.dumps(job))
    path.with_suffix(".new").replace(path)


def all_jobs() -> list[Job]:
    return [load(int(f.stem)) for f in sorted((FOLDER / "state").glob("*.json"), key=by_number)]


def by_number(file: Path) -> int:
    return int(file.stem)


def change(id_: int, **values: Any) -> Job:
    with locked():
        job = load(id_) | values
        save(job)
    return job


def known(word: str) -> Job | None:
    """The job that is called so, with or without the server."""
    number = word.removesuffix(f".{SERVER}")
    exists = number.isdigit() and (FOLDER / "state" / f"{number}.json").exists()
    job = load(int(number)) if exists else None
    return None if job is not None and job["state"] == "F" and has("no-history") else job


def has(mark: str) -> bool:
    return (FOLDER / mark).exists()


# qsub

TAKEN = {"-N", "-r", "-k", "-j", "-o", "-W", "-l", "-q", "-P", "-A"}
CHUNK = {"ncpus", "ngpus", "mpiprocs"}


def qsub(words: list[str]) -> None:
    if has("down"):
        answer("server-down", "qsub -- /bin/true")
    job = {"queue": "workq", "walltime": "00:10:00", "place": "free", "select": "1:ncpus=1"}
    rest = list(words)
    while rest and rest[0] != "--":
        option = rest.pop(0)
        if option not in TAKEN or not rest:
            unrecorded(["qsub", *words])
        take(job, option, rest.pop(0), words)
    if len(rest) < 2:
        unrecorded(["qsub", *words])
    job["command"] = rest[1:]
    refuse(job)
    with locked():
        last = max((one["id"] for one in all_jobs()), default=0)
        job |= {"id": last + 1, "state": "Q", "substate": 10, "ctime": time.time(), "comment": ""}
        job["cwd"] = str(Path.cwd())
        save(job)
        schedule()
    say(f"{job['id']}.{SERVER}\n")


def take(job: Job, option: str, value: str, words: list[str]) -> None:
    if (option, value) in (("-r", "n"), ("-k", "oed"), ("-j", "oe")):
        return
    if option == "-l" and value.partition("=")[0] in ("select", "place", "walltime"):
        job[value.partition("=")[0]] = value.partition("=")[2]
    elif option == "-W" and all(
        w.split("=")[0] in ("umask", "group_list") for w in value.split(",")
    ):
        job["attributes"] = value
    elif option in ("-N", "-o", "-q", "-P", "-A") and re.fullmatch(r"[\w./@-]+", value):
        names = {"-N": "name", "-o": "output", "-q": "queue", "-P": "project", "-A": "account"}
        job[names[option]] = value
    elif option == "-l" and re.fullmatch(r"\w+=\w+", value):
        answer("submit-errors", "qsub -l nosuch=1 -- /bin/sleep 1", nosuch=value.split("=")[0])
    else:
        unrecorded(["qsub", *words])


def refuse(job: Job) -> None:
    """What the recorded server does not take."""
    queue = job["queue"]
    if queue not in ("workq", "short", "bigq", "offq", "priv", "lim"):
        answer("submit-errors", "qsub -q nosuch -- /bin/sleep 1")
    if queue in ("offq", "priv"):
        answer("submit-errors", f"qsub -q {queue} -- /bin/sleep 1")
    if queue == "short" and limit_s(job) > 300:
        answer("submit-errors", "qsub -q short -l walltime=01:00:00 -- /bin/sleep 1")
    others = [one for one in all_jobs() if one["queue"] == "lim" and one["state"] != "F"]
    if queue == "lim" and len(others) >= 2:
        answer("submit-errors", "qsub -q lim -- /bin/sleep 8", 2)
    count, chunk = chunks(job)
    for name in chunk:
        if name not in CHUNK:
            command = "qsub -l select=1:ncpus=1:nogpu=1 -- /bin/sleep 1"
            answer("submit-errors", command, nogpu=name)
    if count < 1:
        answer("submit-errors", "qsub -l select=0:ncpus=1 -- /bin/sleep 1")


def chunks(job: Job) -> tuple[int, dict[str, int]]:
    count, *words = job["select"].split(":")
    return int(count), {w.partition("=")[0]: int(w.partition("=")[2] or 0) for w in words}


def limit_s(job: Job) -> int:
    hours, minutes, seconds = (int(word) for word in job["walltime"].split(":"))
    return (hours * 60 + minutes) * 60 + seconds


# The scheduler


def schedule() -> None:
    """With the lock held: start what fits, in the order of submission."""
    for job in all_jobs():
        if job["state"] != "Q":
            continue
        job["comment"], hosts = place(job)
        if hosts:
            job |= {"hosts": hosts, "state": "R", "substate": 42, "stime": time.time()}
            save(job)
            subprocess.Popen(
                [sys.executable, "-I", __file__, str(FOLDER), "mom", str(job["id"])],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=(FOLDER / "mom.log").open("a"),
                start_new_session=True,
            )
        else:
            save(job)


def place(job: Job) -> tuple[str, list[str]]:
    """What is said of it, and its hosts; none if it waits."""
    count, chunk = chunks(job)
    cpus, gpus = chunk.get("ncpus", 1), chunk.get("ngpus", 0)
    if count > len(HOSTS):
        return "Can Never Run: Not enough total nodes available", []
    if gpus > 4:
        return f"Can Never Run: Insufficient amount of resource: ngpus (R: {gpus} A: 8 T: 8)", []
    if job["queue"] == "bigq":
        return "Not Running: Queue not started.", []
    running = [one for one in all_jobs() if one["state"] == "R"]
    if job["queue"] == "lim" and any(one["queue"] == "lim" for one in running):
        return "Not Running: User has reached queue lim running job limit.", []
    free = []
    for host, (_, all_cpus, all_gpus) in HOSTS.items():
        there = [chunks(one)[1] for one in running if host in one["hosts"]]
        alone = any("excl" in one["place"] for one in running if host in one["hosts"])
        fits = sum(c.get("ncpus", 1) for c in there) + cpus <= all_cpus
        fits &= sum(c.get("ngpus", 0) for c in there) + gpus <= all_gpus
        if fits and not alone and not ("excl" in job["place"] and there):
            free.append(host)
    if len(free) >= count:
        hosts = free[:count]
        return (
            f"Job run at {stamp(time.time(), '%a %b %d at %H:%M')} on {vnodes(job, hosts)}",
            hosts,
        )
    used = sum(chunks(one)[1].get("ncpus", 1) * len(one["hosts"]) for one in running)
    amount = f"(R: {cpus * count} A: {16 - used} T: 16)"
    return f"Not Running: Insufficient amount of resource: ncpus {amount}", []


def vnodes(job: Job, hosts: list[str]) -> str:
    wanted = ":".join(f"{k}={v}" for k, v in chunks(job)[1].items() if k != "mpiprocs")
    return "+".join(f"({HOSTS[host][0]}:{wanted})" for host in hosts)


# pbs_mom: one process for each job that runs


def mom(id_: int) -> None:
    job = load(id_)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, signal.SIGUSR1))
    os.umask(0o077)
    try:
        log = Path(job["output"]).open("ab")  # noqa: SIM115 - closed with the process
    except OSError:
        held = {"state": "H", "substate": 20, "hold": "s", "status": -3, "run_count": 21}
        change(id_, **held, comment="job held, too many failed attempts to run", hosts=[])
        end(id_)
        return
    (FOLDER / "aux" / str(id_)).write_text("".join(f"{host}\n" for host in job["hosts"]))
    program = start(job, log)
    change(id_, mom=os.getpid(), session=program.pid)
    if load(id_).get("deleted"):
        os.kill(os.getpid(), signal.SIGUSR1)
    status, substate, how = watch(job, program, log)
    end_session(program, log_of=id_)
    if status is None:
        code = program.wait()
        status = 256 - code if code < 0 else code
    comment = f"{job['comment']} and {how or ('failed' if status else 'finished')}"
    substate = substate or (93 if status else 92)
    change(id_, state="F", substate=substate, status=status, comment=comment, obittime=time.time())
    end(id_)


def start(job: Job, log: BinaryIO) -> Program:
    environment = {
        "PATH": f"/bin:/usr/bin:{FOLDER}/bin",
        "HOME": os.environ.get("HOME", "/"),
        "NCPUS": str(chunks(job)[1].get("ncpus", 1)),
        "OMP_NUM_THREADS": str(chunks(job)[1].get("ncpus", 1)),
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "PBS_JOBID": f"{job['id']}.{SERVER}",
        "PBS_JOBNAME": job["name"],
        "PBS_NODEFILE": str(FOLDER / "aux" / str(job["id"])),
        "PBS_NODENUM": "0",
        "PBS_QUEUE": job["queue"],
        "PBS_O_WORKDIR": job["cwd"],
        "PBS_TASKNUM": "1",
    }
    return subprocess.Popen(
        job["command"],
        cwd=environment["HOME"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, ()),
    )


def watch(job: Job, program: Program, log: BinaryIO) -> tuple[int | None, int | None, str]:
    """Until it ended, was deleted or took too long: Exit_status (None: the program's), substate, words."""
    deadline = time.monotonic() + limit_s(job)
    while program.poll() is None:
        left = deadline - time.monotonic()
        if left <= 0:
            limit = limit_s(job)
            log.write(f"=>> PBS: job killed: walltime {limit} exceeded limit {limit}\n".encode())
            log.flush()
            return -29, 93, "exceeded resource walltime"
        told = signal.sigtimedwait((signal.SIGCHLD, signal.SIGUSR1), left)
        if told is not None and told.si_signo == signal.SIGUSR1:
            return None, 91, f"terminated by alice@{SERVER}"
    return None, None, ""


def end_session(program: Program, log_of: int) -> None:
    """TERM to all, KILL to what is left; also on sister hosts."""
    tasks = [int(f.name) for f in (FOLDER / "tasks" / str(log_of)).glob("*")]
    sessions = {program.pid, *tasks}
    for signum in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + KILL_DELAY_S
        signal_sessions(sessions, signum)
        while time.monotonic() < deadline:
            program.poll()
            if not list(members(sessions)):
                return
            time.sleep(0.02)


def signal_sessions(sessions: set[int], signum: int) -> None:
    for pid in members(sessions):
        with suppress(ProcessLookupError):
            os.kill(pid, signum)


def members(sessions: set[int]) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                words = (entry / "stat").read_text().rpartition(")")[2].split()
                if words[0] not in "ZX" and int(words[3]) in sessions:
                    yield int(entry.name)


def end(id_: int) -> None:
    with locked():
        schedule()
    with suppress(OSError):
        (FOLDER / "aux" / str(id_)).unlink()


def pbs_tmrsh(words: list[str]) -> NoReturn:
    id_ = os.environ["PBS_JOBID"].removesuffix(f".{SERVER}")
    hosts = Path(os.environ["PBS_NODEFILE"]).read_text().split()
    if len(words) < 2 or words[0] not in hosts:
        unrecorded(["pbs_tmrsh", *words])
    environment = {
        "PATH": "/bin:/usr/bin",
        "HOME": os.environ.get("HOME", "/"),
        "PBS_JOBID": os.environ["PBS_JOBID"],
        "PBS_NODENUM": str(hosts.index(words[0])),
    }
    task = subprocess.Popen(words[1:], env=environment, start_new_session=True, cwd="/")
    place = FOLDER / "tasks" / id_
    place.mkdir(parents=True, exist_ok=True)
    (place / str(task.pid)).touch()
    sys.exit(task.wait())


# qdel, qsig


def qdel(words: list[str]) -> NoReturn:
    if has("down"):
        answer("server-down", "qdel 1")
    code = 0
    for word in words:
        job = known(word)
        if job is None:
            step = recorded("delete", "qdel 99999.pbssrv")
        elif job["state"] == "F":
            step = recorded("delete", "qdel 20.pbssrv", 1)
        else:
            delete(job["id"])
            continue
        say(step["stdout"], step["stderr"], **{f"99999.{SERVER}": word, f"20.{SERVER}": word})
        code = step["exit_code"]
    sys.exit(code)


def delete(id_: int) -> None:
    with locked():
        job = load(id_)
        if job["state"] in ("Q", "H"):
            job |= {"state": "F", "substate": 91, "comment": "", "obittime": time.time()}
            job.pop("status", None)
        job["deleted"] = True
        save(job)
    if "mom" in job and job["state"] == "R":
        with suppress(ProcessLookupError):
            os.kill(job["mom"], signal.SIGUSR1)


def qsig(words: list[str]) -> None:
    if len(words) != 3 or words[0] != "-s":
        unrecorded(["qsig", *words])
    job, name = known(words[2]), words[1].removeprefix("SIG")
    if job is None:
        answer("signals", "qsig -s USR1 99999", **{f"99999.{SERVER}": words[2]})
    if job["state"] == "F":
        answer("signals", "qsig -s 10 95.pbssrv")
    if job["state"] != "R":
        answer("signals", "qsig -s USR1 96.pbssrv", **{f"96.{SERVER}": words[2]})
    if name == "NOPE":
        answer("command-form-signals", "qsig -s NOPE 336.pbssrv", **{f"336.{SERVER}": words[2]})
    signal_sessions({job["session"]}, getattr(signal, f"SIG{name}"))


# qstat, qselect, pbsnodes


def qstat(words: list[str]) -> NoReturn:
    if has("down"):
        answer("server-down", "qstat -f -F json")
    if words == ["-B", "-f", "-F", "json"]:
        off = {'"job_history_enable":\t"True"': '"job_history_enable":\t"False"'}
        answer("version", "qstat -B -f -F json", **(off if has("no-history") else {}))
    if words == ["-Q", "-f", "-F", "json"]:
        answer("queues", "qstat -Q -f -F json")
    finished = words[:1] == ["-x"]
    rest = words[finished:]
    as_json = rest[1:3] == ["-F", "json"]
    asked = rest[3 if as_json else 1 :]
    if rest[:1] != ["-f"] or (not asked and (finished or not as_json)):
        unrecorded(["qstat", *words])
    if finished and has("no-history"):
        step = recorded("history-off", "qstat -x -f -F json 360.pbssrv")
        for word in asked:
            say("", step["stderr"], **{f"360.{SERVER}": word})
        say(step["stdout"] if as_json else "")
        sys.exit(step["exit_code"])
    found, code = [], 0
    for word in asked:
        job = known(word)
        if job is not None and (finished or job["state"] != "F"):
            found.append(job)
            continue
        command = "qstat -f -F json 99999.pbssrv"
        step = recorded("qstat-errors", command)
        if job is not None:
            step = recorded("submit", "qstat -f -F json 1.pbssrv", 1)
        say("", step["stderr"], **{f"99999.{SERVER}": word, f"1.{SERVER}": word})
        code = step["exit_code"]
    if not asked:
        found = [job for job in all_jobs() if job["state"] != "F"]
    elif as_json and has("first-only"):
        found = found[:1]
    told = {f"{job['id']}.{SERVER}": filled(job) for job in found}
    say(as_document(told) if as_json else "".join(map(as_text, told.items())))
    sys.exit(code)


def as_document(told: dict[str, Record]) -> str:
    document = json.loads(recorded("qstat-errors", "qstat -f -F json 99999")["stdout"])
    document["timestamp"] = int(time.time())
    return json.dumps(document | ({"Jobs": told} if told else {}))


def as_text(job: tuple[str, Record]) -> str:
    """As `qstat -f 362.pbssrv` was recorded (what-others-see): long lines go on behind a tab."""
    lines = [f"Job Id: {job[0]}"]
    for key, value in job[1].items():
        if key == "Variable_List":
            value = ",".join(f"{name}={one}" for name, one in value.items())
        pairs = value.items() if isinstance(value, dict) else [("", value)]
        for name, one in pairs:
            line = f"    {key}.{name} = {one}" if name else f"    {key} = {one}"
            lines.append(re.sub(r"(.{76})(?=.)", r"\1\n\t", line))
    return "\n".join(lines) + "\n\n"


def template(job: Job) -> Record:
    """The recorded record of a job in that state."""
    match job["state"], job["substate"]:
        case "Q", _:
            return record_of("submit-errors", "qstat -f -F json 44.pbssrv", 44)
        case "H", _:
            return record_of("json-quirks", "qstat -f -F json 98.pbssrv", 98)
        case "R", _:
            return record_of("multichunk", "qstat -f -F json 67.pbssrv", 67)
        case "F", 91 if "stime" not in job:
            return record_of("delete", "qstat -x -f -F json 21.pbssrv", 21)
        case "F", 91:
            return record_of("delete", "qstat -x -f -F json 20.pbssrv", 20)
        case "F", 93:
            return record_of("walltime-exceeded", "qstat -x -f -F json 77.pbssrv", 77)
    return record_of("multichunk", "qstat -x -f -F json 67.pbssrv", 67)


def filled(job: Job) -> Record:
    count, chunk = chunks(job)
    hosts = job.get("hosts", [])
    times = {
        **dict.fromkeys(("ctime", "qtime", "etime"), job["ctime"]),
        "stime": job.get("stime"),
        "obittime": job.get("obittime"),
        "mtime": job.get("obittime") or job.get("stime") or job["ctime"],
    }
    values = {
        "Job_Name": job["name"],
        "Job_Owner": f"{os.environ.get('USER') or user()}@{SERVER}",
        "queue": job["queue"],
        "comment": job["comment"],
        "exec_host": "+".join(f"{host}/0*{chunk.get('ncpus', 1)}" for host in hosts),
        "exec_vnode": vnodes(job, hosts),
        "Output_Path": f"{SERVER}:{job['output']}",
        "Exit_status": job.get("status"),
        "Hold_Types": job.get("hold", "n"),
        "run_count": job.get("run_count", 1),
        "Resource_List": {
            **{name: count * amount for name, amount in chunk.items()},
            "nodect": count,
            **{key: job[key] for key in ("place", "select", "walltime")},
        },
        **{key: stamp(at) for key, at in times.items() if at is not None},
    }
    record = template(job) | {"job_state": job["state"], "substate": job["substate"]}
    if job["state"] == "H":
        record |= {key: values[key] for key in ("comment", "run_count", "Exit_status")}
    return {key: values.get(key, value) for key, value in record.items()}


def user() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def stamp(at: float, form: str = "%a %b %d %H:%M:%S %Y") -> str:
    if os.environ.get("TZ") != "UTC" and form.endswith("%Y"):
        unrecorded(["local time"])
    return time.strftime(form, time.gmtime(at))


def qselect(words: list[str]) -> None:
    if has("down"):
        answer("server-down", "qselect")
    finished = words[:1] == ["-x"]
    rest = words[finished:]
    if len(rest) != 2 or rest[0] != "-N":
        unrecorded(["qselect", *words])
    if finished and has("no-history"):
        answer("history-off", "qselect -x -u alice | tail -2")
    for job in all_jobs():
        if job["name"] == rest[1] and (finished or job["state"] != "F"):
            say(f"{job['id']}.{SERVER}\n")


def pbsnodes(words: list[str]) -> None:
    if words != ["-av", "-F", "json"]:
        unrecorded(["pbsnodes", *words])
    if has("down"):
        answer("server-down", "pbsnodes -a -F json")
    document = json.loads(recorded("pbsnodes", "pbsnodes -av -F json")["stdout"])
    for job in all_jobs():
        for host in job.get("hosts", []) if job["state"] == "R" else ():
            document["nodes"][HOSTS[host][0]].setdefault("jobs", []).append(f"{job['id']}.{SERVER}")
    say(json.dumps(document))


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "qsub": qsub,
    "qstat": qstat,
    "qdel": qdel,
    "qsig": qsig,
    "qselect": qselect,
    "pbsnodes": pbsnodes,
    "pbs_tmrsh": pbs_tmrsh,
}

if __name__ == "__main__":
    FOLDER = Path(sys.argv[1])
    if sys.argv[2] == "mom":
        mom(int(sys.argv[3]))
    else:
        COMMANDS[sys.argv[2]](sys.argv[3:])
