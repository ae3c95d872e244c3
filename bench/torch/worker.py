"""One PyTorch process that the benchmark asks to do work: a JSON object per line in, one per line out.

    {"model": DIR, "case": FILE, "variant": "plain" | "hugging-face" | "hugging-face-cache" | "expert",
     "work": "observe" | "steps" | "further", "repeats": N, "numbers": true | false, "count": true | false}
    {"model": DIR, "case": FILE, "variant": "local-batch" | "local-cache" | "local-cache-twice", "work": "local", …}
    {"product": [M, K, N], "repeats": N}

The work "steps" is observing and then stepping; "further" predicts further queries under the update that
the steps make, which is made beforehand and not timed; "local" is observing by derivatives at last tokens
alone. The answer holds the seconds of one repeat, resident memory before, its peak and, if asked for, the
numbers to compare and how many operations PyTorch counts in
all products (which makes the time useless); or {"error": "..."}. The first line of the
input is {"threads": N}; its answer says which PyTorch this is.
"""

import json
import sys
import time
from pathlib import Path

import common
import expert
import hugging_face
import local
import plain
import torch
from torch.utils.flop_counter import FlopCounterMode


def memory(field):
    """A line of this process's memory in bytes, or None where there is no such file."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), None)


def forget_peak():
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def timed(call, repeats):
    """What a call returns the last time, its seconds, and resident memory before and at its peak."""
    forget_peak()
    before, start = memory("VmRSS"), time.perf_counter()
    for _ in range(repeats):
        found = call()
    seconds = (time.perf_counter() - start) / repeats
    return found, {"seconds": seconds, "before": before, "peak": memory("VmHWM")}


def counted(call):
    """What a call returns, and how many operations its products take."""
    with FlopCounterMode(display=False) as counter:
        found = call()
    return found, {"seconds": 0.0, "operations": counter.get_total_flops()}


class Worker:
    def __init__(self):
        self.models, self.cases, self.experts = {}, {}, {}

    def run(self, request):
        repeats = request.get("repeats", 1)
        measured = counted if request.get("count") else lambda call: timed(call, repeats)
        if "product" in request:
            rows, inner, columns = request["product"]
            left, right = torch.rand(rows, inner), torch.rand(inner, columns)
            target = torch.empty(rows, columns)
            return timed(lambda: torch.mm(left, right, out=target), repeats)[1]
        family, case = self.model(request["model"]), self.case(request["case"])
        if request["work"] == "further":
            cached = request["variant"] == "hugging-face-cache"
            further = hugging_face.further_cached if cached else hugging_face.further
            with hugging_face.moved(family, case, hugging_face.observe(family, case)[2]):
                found, answer = measured(lambda: {"predictions": further(family, case)})
        elif request["work"] == "local":
            names = ("predictions", "kernels")
            found, answer = measured(lambda: dict(zip(names, local.observe(family, case, request["variant"]))))
        else:
            variant = self.variant(request, family)
            found, answer = measured(lambda: self.observe_and(request["work"], variant, case))
        if request.get("numbers"):
            answer["numbers"] = {name: tensor.flatten().tolist() for name, tensor in found.items()}
        return answer

    def observe_and(self, work, variant, case):
        observe, steps = variant
        predictions, kernels, lower = observe(case)
        found = {"predictions": predictions, "kernels": kernels}
        if work == "steps":
            found["adapted"] = steps(case, lower)
        return found

    def model(self, folder):
        if folder not in self.models:
            self.models[folder] = common.Family(common.read_model(folder))
        return self.models[folder]

    def case(self, file):
        if file not in self.cases:
            self.cases[file] = common.read_case(file)
        return self.cases[file]

    def variant(self, request, family):
        """How a variant observes and how it steps."""
        if request["variant"] == "expert":
            folder = request["model"]
            if folder not in self.experts:
                self.experts[folder] = expert.Expert(family)
            return self.experts[folder].observe, self.experts[folder].steps
        module = {"plain": plain, "hugging-face": hugging_face}[request["variant"]]
        return lambda case: module.observe(family, case), lambda case, lower: module.steps(family, case, lower)


def main():
    torch.set_num_threads(json.loads(sys.stdin.readline())["threads"])
    worker, out = Worker(), sys.stdout
    sys.stdout = sys.stderr  # what libraries print must not be taken for an answer
    print(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads()}), file=out, flush=True)
    for line in sys.stdin:
        try:
            answer = worker.run(json.loads(line))
        except Exception as error:  # whatever it is, the benchmark shows it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
