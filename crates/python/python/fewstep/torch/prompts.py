"""The prompts of a task as tokens, written exactly as the tool writes them.

In: a task (a dictionary with the fields of the tool's JSON, or a ``fewstep.Task``) and a Hugging
Face tokenizer. Out: :class:`Prompts`. Prompt ``i`` shows the other examples and asks for the answer
of example ``i``, which it does not contain; the last prompt shows all examples and asks the query.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .. import errors

#: The largest size of a label's value: kernels hold its square.
LARGEST_VALUE = 1e12


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class Task:
    """A task whose words were checked."""

    id: str
    before: str
    between: str
    behind: str
    separator: str
    labels: Tuple[Tuple[str, float], ...]
    examples: Tuple[Tuple[str, str], ...]
    query: str

    def prefix(self, x: str) -> str:
        """The text up to where the answer is asked for."""
        return self.before + x + self.between

    def shown(self, x: str, y: str) -> str:
        """The text of an example with its answer."""
        return self.before + x + self.between + y + self.behind

    def value_of(self, answer: str) -> float:
        """The number that an answer stands for."""
        return dict(self.labels)[answer]


@dataclass(frozen=True)
class Labels:
    """The tokens that a prediction chooses between, and the value of each."""

    tokens: Tuple[int, ...]
    values: Tuple[float, ...]


@dataclass(frozen=True)
class Prompts:
    """A task in tokens: the leave-one-out prompts, the query's prompt, labels and answers."""

    leave_one_out: Tuple[Tuple[int, ...], ...]
    query: Tuple[int, ...]
    labels: Labels
    targets: Tuple[float, ...]


@dataclass(frozen=True)
class Settings:
    """How prompts are written: order of the examples, token at the start, longest prompt."""

    loo_order: str
    bos: str
    bos_token: Optional[int]
    context: Optional[int]

    def __post_init__(self) -> None:
        if self.loo_order not in ("original", "tree"):
            raise errors.UnknownOrder(
                f"unknown order of examples {_quoted(self.loo_order)}: expected original or tree"
            )
        if self.bos not in ("auto", "always", "never"):
            raise errors.UnknownName(
                f"unknown bos {_quoted(self.bos)}: expected auto, always or never"
            )


def read_task(task: Any) -> Task:
    """Checks the words of a task, as the tool does."""
    fields: Any = task
    if not isinstance(task, Mapping):
        if not hasattr(task, "to_dict"):
            raise errors.WrongType(
                f"a task is a {type(task).__name__}; it must be a dictionary or a fewstep.Task"
            )
        fields = task.to_dict()
    _check_fields(fields, ("id", "template", "separator", "labels", "examples", "query"))
    name = _text(fields, "id", "task")
    start = f"task {_quoted(name)}"
    template = _text(fields, "template", start)
    for placeholder in ("{x}", "{y}"):
        found = template.count(placeholder)
        if found != 1:
            raise errors.Placeholder(
                f"{start}: template {_quoted(template)} contains {placeholder} {found} times; "
                "it must contain it exactly once"
            )
    before, _, rest = template.partition("{x}")
    between, y, behind = rest.partition("{y}")
    if not y:
        raise errors.PlaceholderOrder(
            f"{start}: template {_quoted(template)} has {{y}} before {{x}}; the prediction at "
            "{y} would not see {x}: put {x} first"
        )
    separator = _text(fields, "separator", start) if "separator" in fields else "\n"
    if _are_classes(fields.get("labels")):
        raise errors.NotRegression(
            f"{start}: its labels have no values, so that it asks for a class; this needs values: "
            "tasks of classes are answered by fewstep.Model"
        )
    labels = _labels(fields, start)
    examples, query = _words(fields, start, [text for text, _ in labels])
    return Task(name, before, between, behind, separator, labels, examples, query)


def _check_fields(fields: Any, allowed: Sequence[str]) -> None:
    """A misspelt field would be passed over without a word."""
    unknown = next((name for name in fields if name not in allowed), None)
    if unknown is not None:
        listed = ", ".join(f"`{name}`" for name in allowed)
        raise errors.Json(f"unknown field `{unknown}`, expected one of {listed}")


def _text(fields: Any, field: str, where: str) -> str:
    value = fields.get(field) if isinstance(fields, Mapping) else None
    if not isinstance(value, str):
        raise errors.WrongType(
            f"{where}: {field} is a {type(value).__name__}; it must be a text"
        )
    return value


def _list(fields: Any, field: str, where: str) -> Sequence[Any]:
    value = fields.get(field)
    if not isinstance(value, (list, tuple)):
        raise errors.WrongType(
            f"{where}: {field} is a {type(value).__name__}; it must be a list"
        )
    return value


def _are_classes(labels: Any) -> bool:
    """Whether no label has a value; without labels the answers of the examples are classes."""
    if labels is None:
        return True
    alone = lambda label: isinstance(label, str) or (
        isinstance(label, Mapping) and "text" in label and label.get("value") is None
    )
    return isinstance(labels, (list, tuple)) and len(labels) > 0 and all(map(alone, labels))


def _labels(fields: Any, start: str) -> Tuple[Tuple[str, float], ...]:
    found: Dict[str, float] = {}
    labels = _list(fields, "labels", start)
    if len(labels) < 2:
        raise errors.TooFewLabels(f"{start} has {len(labels)} labels; it needs at least 2")
    for index, label in enumerate(labels):
        text = _text(label, "text", f"{start}: label {index}")
        _check_fields(label, ("text", "value"))
        if not text:
            raise errors.EmptyLabel(f"{start}: label {index} has no text; every label needs one")
        if text in found:
            raise errors.DuplicateLabel(
                f"{start}: label {_quoted(text)} is listed twice; list every label once"
            )
        value = label.get("value")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise errors.WrongType(
                f"{start}: label {_quoted(text)} has a {type(value).__name__} for a value; it "
                "must be a number"
            )
        if math.isnan(value) or abs(value) > LARGEST_VALUE:
            raise errors.LabelValue(
                f"{start}: label {_quoted(text)} has the value {value}; it must be a number "
                "between -1e12 and 1e12: use larger units"
            )
        found[text] = float(value)
    return tuple(found.items())


def _words(
    fields: Any, start: str, labels: List[str]
) -> Tuple[Tuple[Tuple[str, str], ...], str]:
    def checked(place: str, entry: Any, needs_answer: bool) -> Tuple[str, str]:
        where = f"{start}: {place}"
        x = _text(entry, "x", where)
        _check_fields(entry, ("x", "y"))
        if not x.strip():
            raise errors.EmptyInput(f"{start}: x of {place} is blank; give it text or leave it out")
        if not needs_answer and entry.get("y") is None:
            return (x, "")
        y = _text(entry, "y", where)
        if y not in labels:
            raise errors.UnknownLabel(
                f"{start}: y of {place} is {_quoted(y)}; it must be one of {_quoted(labels)}"
            )
        return (x, y)

    examples = _list(fields, "examples", start)
    if len(examples) < 2:
        raise errors.TooFewExamples(
            f"{start} has {len(examples)} examples; leave-one-out needs at least 2: add examples, "
            "or ask the model without adapting it"
        )
    pairs = [checked(f"example {i}", example, True) for i, example in enumerate(examples)]
    return tuple(pairs), checked("the query", fields.get("query"), False)[0]


def others(own: int, examples: int, order: str) -> List[int]:
    """The examples without one, in the order in which its prompt shows them."""
    if order == "original":
        return [other for other in range(examples) if other != own]
    # Far ones first: the prompts of each half begin with the whole other half.
    found: List[int] = []
    first, end = 0, examples
    while end - first > 1:
        middle = first + (end - first) // 2
        if own < middle:
            found.extend(range(middle, end))
            end = middle
        else:
            found.extend(range(first, middle))
            first = middle
    return found


class Writer:
    """Writes the prompts of one task, and of further queries about the same examples."""

    def __init__(self, task: Task, tokenizer: Any, settings: Settings) -> None:
        self.task = task
        self.tokenizer = tokenizer
        self.settings = settings
        self._start = self._start_tokens()
        self._shown = [task.shown(x, y) + task.separator for x, y in task.examples]
        self._label_tokens: List[int] = []

    def prompts(self) -> Prompts:
        """All prompts of the task."""
        task = self.task
        leave_one_out = tuple(
            self._prompt(f"example {own}", self._others(own), x)
            for own, (x, _) in enumerate(task.examples)
        )
        query = self.query(task.query)
        labels = Labels(tuple(self._label_tokens), tuple(value for _, value in task.labels))
        targets = tuple(task.value_of(y) for _, y in task.examples)
        return Prompts(leave_one_out, query, labels, targets)

    def query(self, x: str) -> Tuple[int, ...]:
        """The prompt that shows all examples and asks for the answer to ``x``."""
        return self._prompt("the query", list(range(len(self._shown))), x)

    def _others(self, own: int) -> List[int]:
        return others(own, len(self.task.examples), self.settings.loo_order)

    def _prompt(self, place: str, shown: List[int], x: str) -> Tuple[int, ...]:
        text = "".join(self._shown[other] for other in shown) + self.task.prefix(x)
        start = f"task {_quoted(self.task.id)}"
        prompt: List[int] = []
        tokens: List[int] = []
        for index, (label, _) in enumerate(self.task.labels):
            ids = self._encode(text + label)
            if index == 0:
                prompt = ids[:-1]
                self._check_length(place, len(self._start) + len(prompt))
            # What all labels begin with is part of the prompt; one token of each must remain.
            same = _shared(prompt, ids)
            if same < len(prompt):
                self._refuse_pieces(place, 0, prompt[same:] + tokens[:1])
            if len(ids) - same != 1:
                self._refuse_pieces(place, index, ids[same:])
            token = ids[-1]
            if self._label_tokens:
                expected = self._label_tokens[index]
                if token != expected:
                    raise errors.LabelsDisagree(
                        f"{start}: label {_quoted(label)} is the token {self._piece(token)} after "
                        f"the prompt of {place}, but {self._piece(expected)} after that of "
                        "example 0; end the template's prefix so that labels do not join it"
                    )
            elif token in tokens:
                first = self.task.labels[tokens.index(token)][0]
                raise errors.LabelsCollide(
                    f"{start}: labels {_quoted(first)} and {_quoted(label)} are the same token to "
                    "this model; choose other label texts"
                )
            tokens.append(token)
        self._label_tokens = tokens
        if not self._start and not prompt:
            raise errors.EmptyPrompt(
                f"{start}: the prompt of {place} has no token before the labels; add text before "
                "{y} to the template"
            )
        return tuple(self._start + prompt)

    def _encode(self, text: str) -> List[int]:
        ids = self.tokenizer(text, add_special_tokens=False, truncation=False)["input_ids"]
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        if unknown is not None and unknown in ids and str(self.tokenizer.unk_token) not in text:
            raise errors.UnknownText(
                "text has characters without tokens; use only characters of the tokenizer's "
                "vocabulary"
            )
        return [int(token) for token in ids]

    def _start_tokens(self) -> List[int]:
        """What the tokenizer puts before a text by itself, or the token that was asked for."""
        if self.settings.bos == "never":
            return []
        plain = self._encode("a")
        whole = [int(token) for token in self.tokenizer("a", truncation=False)["input_ids"]]
        starts = range(len(whole) - len(plain) + 1)
        leading = next((i for i in starts if whole[i : i + len(plain)] == plain), 0)
        if leading > 0 or self.settings.bos == "auto":
            return whole[:leading]
        if self.settings.bos_token is None:
            raise errors.NoBos(
                "a beginning-of-sequence token was requested, but neither the tokenizer nor "
                "config.json names one in the vocabulary; turn it off"
            )
        return [self.settings.bos_token]

    def _check_length(self, place: str, length: int) -> None:
        limit = self.settings.context
        if limit is not None and length > limit:
            raise errors.ContextTooLong(
                f"task {_quoted(self.task.id)}: the prompt of {place} has {length} tokens, but the "
                f"model takes {limit}; use fewer or shorter examples"
            )

    def _refuse_pieces(self, place: str, label: int, ids: List[int]) -> None:
        pieces = f"[{', '.join(self._piece(token) for token in ids)}]"
        raise errors.LabelPieces(
            f"task {_quoted(self.task.id)}: label {_quoted(self.task.labels[label][0])} becomes the "
            f"tokens {pieces} after the prompt of {place}; every label must be exactly one token "
            "where the labels begin to differ: choose other label texts"
        )

    def _piece(self, token: int) -> str:
        return _quoted(self.tokenizer.decode([token]))


def _shared(prompt: Sequence[int], ids: Sequence[int]) -> int:
    """How many tokens of a prompt a sequence begins with, at least one of its own being left."""
    same = 0
    for own, other in zip(prompt, ids[: max(len(ids) - 1, 0)]):
        if own != other:
            break
        same += 1
    return same
