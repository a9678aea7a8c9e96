"""Reading a user's own annotated files: tagged tokens, questions on a passage.

Encodings and line ends are as for `course_lib.data.readers`; an error names the file and the line.
"""

from __future__ import annotations

import json
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runtime import InputError
from ..runtime.errors import one_of
from ..runtime.visible import is_blank
from .readers import (
    POLICIES,
    check_label,
    check_text,
    json_type,
    line_ends,
    listed,
    read_content,
    shown,
    split_lines,
    warn_of,
)
from .spans import bio_types

if TYPE_CHECKING:
    from paddlenlp.datasets import MapDataset

_REPAIR = 'policy="repair" (--policy repair)'  # how to ask for it
MAX_TOKENS = 10_000  # of one sentence; more is a file without its blank lines

_TAG = re.compile(r"O|[BIESM]-[^\s\002]+")
_BIO = {"S": "B", "E": "I", "M": "I"}  # of BIOES and BMES: single, end, middle
_SPACES = re.compile(" +")


def read_bio(
    path: str | os.PathLike,
    label_list: Sequence[str] | None = None,
    encoding: str = "utf-8-sig",
    policy: str = "strict",
) -> MapDataset:
    r"""Read tokens with labels in BIO, BIOES or BMES, in one of two formats; labels become BIO.

    CoNLL: one token per line, a tab or spaces, its label; a blank line ends a sentence. With a tab,
    the token may be a space. MSRA (chosen when the file holds the character \002): one sentence
    per line, its tokens joined by \002, a tab, its labels joined by \002.

    Args:
        label_list: the labels that may occur, in the order of their ids: "O" and both B- and I- of
            each type. Give the same list to `span_scores`. None collects the types from the file
            and sorts them: O, B-LOC, I-LOC, B-ORG, ...
        policy: what an I- (or E-, M-) that continues nothing of its type is (the first label of a
            sentence, after O, another type or an end). "strict" refuses it; "repair" reads it as
            B-. In a file with an E-, M- or S- anywhere, also what an entity without its E- is:
            "strict" refuses it, "repair" ends it where it stops. "repair" warns with the numbers
            of such labels and their first lines.

    Returns:
        A MapDataset of `{"tokens": list[str], "labels": list[int]}` in the order of the file, with
        its `label_list`.

    Raises:
        InputError: an unequal number of tokens and labels, a token without a label, a label of
            another form or not in `label_list`, and what `policy` refuses. When the
            types are collected, one that has a single entity is refused as a typing error.
    """
    path = Path(path)
    one_of("policy", policy, POLICIES)
    known = set(label_list or ())
    if label_list:
        bio_types(label_list)
    content = read_content(path, encoding)
    sentences = list((_msra if "\002" in content else _conll)(content, path))
    ended = any(tag[:2] in ("E-", "M-", "S-") for sentence in sentences for *_, tag in sentence)
    examples: list[dict] = []
    checked: set[str] = set()  # labels
    openings: dict[str, list[int]] = {}  # type -> lines on which an entity of it begins
    repairs: dict[str, list[int]] | None = {} if policy == "repair" else None  # lines
    for sentence in sentences:
        if is_blank("".join(token for _, token, _ in sentence)):
            problem = "no token of this sentence can be seen"
            raise InputError(path, problem, "a text", sentence[0][0])
        for line, _, tag in sentence:
            if tag in checked:
                continue
            if not _TAG.fullmatch(check_label(tag, path, line)):
                raise InputError(path, f"label {shown(tag)}", "O, B-TYPE or I-TYPE", line)
            if known and _in_bio(tag) not in known:
                problem = f"unknown label {shown(tag)}"
                raise InputError(path, problem, f"one of {listed(label_list)}", line)
            checked.add(tag)
        labels = _chained(sentence, path, ended, repairs)
        for (line, *_), label in zip(sentence, labels, strict=True):
            if label[0] == "B":
                openings.setdefault(label[2:], []).append(line)
        tokens = [sys.intern(token) for _, token, _ in sentence]
        examples.append({"tokens": tokens, "labels": labels})
    if not examples:
        raise InputError(path, "holds no token", "at least one token with its label")
    warn_of(path, repairs or {})
    if label_list is None:
        label_list = _collected(openings, path)
    ids = {label: index for index, label in enumerate(label_list)}
    for example in examples:
        example["labels"] = [ids[label] for label in example["labels"]]
    from paddlenlp.datasets import MapDataset  # seconds; a bad file is refused before them

    return MapDataset(examples, label_list=label_list)


def _in_bio(tag: str) -> str:
    return _BIO.get(tag[:1], tag[:1]) + tag[1:]


def _chained(
    sentence: list[tuple[int, str, str]],
    path: Path,
    ended: bool,
    repairs: dict[str, list[int]] | None,
) -> list[str]:
    """The labels of a sentence in BIO.

    Args:
        ended: the end of an entity has a label of its own, as in BIOES.
        repairs: gets what was done and on which lines; None refuses what needs it.
    """

    labels, before = [], "O"
    following = [*(tag for *_, tag in sentence[1:]), "the end of the sentence"]
    for (line, token, tag), after in zip(sentence, following, strict=True):
        label, kind, faults = _in_bio(tag), tag[1:], []
        if label[0] == "I" and (before[0] in "ES" or before[1:] != kind):
            label, done = "B" + kind, "labels without a beginning read as B-"
            faults.append((f"after {before}", f"B{kind} before it", "read it as B-", done))
        if ended and tag[0] in "BIM" and (after[0] not in "IME" or after[1:] != kind):
            expected = f"E{kind} at the end of an entity, S{kind} for one of a single token"
            done = "labels without an end after them read as the end"
            faults.append((f"before {after}", expected, "end the entity here", done))
        for place, expected, repair, done in faults:
            if repairs is None:
                problem = f"{shown(tag)} of the token {shown(token)} comes {place}"
                raise InputError(path, problem, f"{expected}, or {_REPAIR} to {repair}", line)
            repairs.setdefault(done, []).append(line)
        labels.append(label)
        before = tag
    return labels


def _collected(openings: Mapping[str, list[int]], path: Path) -> list[str]:
    """The labels of a file, by the lines on which each type begins."""
    if not openings:
        raise InputError(path, "holds no entity, all labels are O", "at least one B- label")
    for kind, lines in openings.items():
        if len(lines) == 1:
            problem = f"the type {shown(kind)} has only the entity that begins here"
            raise InputError(path, problem, "two of each type, or a label_list", lines[0])
    return ["O", *(f"{prefix}-{kind}" for kind in sorted(openings) for prefix in "BI")]


def _conll(content: str, path: Path) -> Iterator[list[tuple[int, str, str]]]:
    """Yield sentences of (line, token, label)."""
    sentence: list[tuple[int, str, str]] = []
    for number, line in enumerate(split_lines(content), 1):
        if is_blank(line) and "\t" not in line:
            if sentence:
                yield sentence
                sentence = []
            continue
        if "\t" in line:
            token, *labels = line.split("\t")
        else:
            token, *labels = _SPACES.split(line.strip(" "))
            if not labels and line.startswith(" "):  # the token is a space itself
                token, labels = " ", [token]
        if not labels or labels == [""]:
            problem = f"the token {shown(token)} has no label"
            raise InputError(path, problem, "a token, a tab or spaces, a label", number)
        if len(labels) > 1:
            problem = f"{len(labels) + 1} columns"
            raise InputError(path, problem, "two: a token and its label", number)
        if not token:
            raise InputError(path, "a label without a token", "a token before the tab", number)
        sentence.append((number, token, labels[0].strip()))
        _check_length(sentence, path)
    if sentence:
        yield sentence


def _msra(content: str, path: Path) -> Iterator[list[tuple[int, str, str]]]:
    for number, line in enumerate(split_lines(content), 1):
        if is_blank(line) and "\t" not in line:
            continue
        fields = line.split("\t")
        if len(fields) == 1:
            raise InputError(path, "tokens without labels", "tokens, a tab, labels", number)
        if len(fields) > 2:
            raise InputError(path, f"{len(fields)} columns", "two: tokens and labels", number)
        tokens, labels = (field.split("\002") for field in fields)
        if len(tokens) != len(labels):
            problem = f"{len(tokens)} token{'s' * (len(tokens) != 1)}"
            problem += f" and {len(labels)} label{'s' * (len(labels) != 1)}"
            raise InputError(path, problem, "one label for each token", number)
        for what, values in (("token", tokens), ("label", labels)):
            if "" in values:
                problem = f"{what} {values.index('') + 1} of {len(values)} is empty"
                raise InputError(path, problem, r"characters between two \002", number)
        sentence = [
            (number, token, label.strip()) for token, label in zip(tokens, labels, strict=True)
        ]
        _check_length(sentence, path)
        yield sentence


def _check_length(sentence: list[tuple[int, str, str]], path: Path) -> None:
    if len(sentence) > MAX_TOKENS:
        problem = f"the sentence that begins here has more than {MAX_TOKENS:,} tokens"
        raise InputError(path, problem, "a blank line after each sentence", sentence[0][0])


def read_squad(
    path: str | os.PathLike,
    encoding: str = "utf-8-sig",
    require_answers: bool = True,
    policy: str = "strict",
) -> MapDataset:
    """Read questions on passages from JSON in the form of SQuAD and of CMRC 2018.

    `{"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ..., "question": ..., "answers":
    [{"text": ..., "answer_start": ...}]}]}]}]}`; other keys are left out. `answer_start` counts
    characters (Unicode code points) from 0. Unlike PaddleNLP's reader, this one strips nothing,
    so that offsets stay right in a context that begins with a space.

    Args:
        require_answers: False also takes questions without answers, as a test file has them.
            Questions marked `"is_impossible": true` never need one.
        policy: "strict" refuses an answer that is not at its offset, an empty answer and an empty
            question; CMRC's own files hold all three. "repair" moves an answer to its place in the
            context that is nearest, drops one that has none and questions that are left without
            text or a needed answer, and warns with the numbers and first lines.

    Returns:
        A MapDataset of `{"id": str, "context": str, "question": str, "answers": list[str],
        "answer_starts": list[int]}` in the order of the file.

    Raises:
        InputError: JSON of another form (with the place, such as data[3].paragraphs[0], and its
            line), an id that comes again, and what `policy` refuses.
    """
    one_of("policy", policy, POLICIES)
    file = _Json(Path(path), encoding, policy)
    examples: list[dict] = []
    seen: dict[str, str] = {}  # id -> place
    for entry_place, entry in file.objects(file.root, "data", "the file"):
        for place, paragraph in file.objects(entry, "paragraphs", entry_place):
            context = file.text(paragraph, "context", place)
            for question_place, question in file.objects(paragraph, "qas", place):
                name = file.text(question, "id", question_place)
                if name in seen:
                    problem = f"{question_place} has the id {shown(name)} of {seen[name]}"
                    file.refuse(problem, "a different id for each question", question)
                seen[name] = question_place
                example = _question(file, question, question_place, context, require_answers)
                if example is not None:
                    examples.append({"id": name, "context": context, **example})
    if not examples:
        file.refuse("holds no question", "at least one in data[].paragraphs[].qas[]", file.root)
    warn_of(file.path, file.repairs, file.repaired_ids)
    from paddlenlp.datasets import MapDataset

    return MapDataset(examples, label_list=None)


def _question(
    file: _Json, question: dict, place: str, context: str, require_answers: bool
) -> dict[str, Any] | None:
    """A question with its answers; None where it is dropped."""
    impossible = question.get("is_impossible", False)
    if not isinstance(impossible, bool):
        problem = f"{place}.is_impossible is a JSON {json_type(impossible)}"
        file.refuse(problem, "true or false", question)
    blank = is_blank(file.get(question, "question", str, place))
    if blank and file.repaired("questions without text dropped", question, question):
        return None
    required = require_answers and not impossible
    answers = []
    if "answers" in question or required:
        answers = list(_answers(file, question, place, context))
    if required and not answers:
        if file.repaired("questions without an answer dropped", question, question):
            return None
        expected = 'an answer, "is_impossible": true, or require_answers=False'
        file.refuse(f"{place} has no answer", expected, question)
    return {
        "question": file.text(question, "question", place),
        "answers": [answer for answer, _ in answers],
        "answer_starts": [start for _, start in answers],
    }


def _answers(file: _Json, question: dict, where: str, context: str) -> Iterator[tuple[str, int]]:
    for item_place, item in file.objects(question, "answers", where):
        answer = file.get(item, "text", str, item_place)
        start = file.get(item, "answer_start", int, item_place)
        if is_blank(answer) and file.repaired("empty answers dropped", item, question):
            continue
        file.text(item, "text", item_place)
        if start < 0 or not context.startswith(answer, start):
            found = re.finditer(f"(?={re.escape(answer)})", context)
            places = sorted((match.start() for match in found), key=lambda at: abs(at - start))
            what = "moved to where they are" if places else "that their context lacks dropped"
            if not file.repaired(f"answers {what}", item, question):
                offset = f"{places[0]}, where it is" if places else "of a text that it contains"
                problem = f"{item_place} {shown(answer)} is not at answer_start {start}"
                expected = f"the offset {offset} in the context, or {_REPAIR}"
                file.refuse(problem, expected, item)
            if not places:
                continue
            start = places[0]
        yield answer, start


class _Json:
    """A JSON file that refuses what is not as expected, with the line on which it begins."""

    def __init__(self, path: Path, encoding: str, policy: str) -> None:
        self.path, self.content, self.policy = path, read_content(path, encoding), policy
        self.repairs: dict[str, list[int]] = {}  # what was done -> lines
        self.repaired_ids: dict[str, list[str]] = {}  # what was done -> ids of the questions
        self.line_ends, decoder = line_ends(self.content), _Decoder()
        try:
            self.root = decoder.decode(self.content)
        except json.JSONDecodeError as error:
            problem, line = f"not valid JSON ({error.msg})", self.line_at(error.pos)
            raise InputError(path, problem, "one JSON object", line) from None
        except RecursionError:
            problem, line = "JSON nested too deeply", self.line_at(decoder.last)
            raise InputError(path, problem, "the form of SQuAD", line) from None
        self.places = decoder.places
        if not isinstance(self.root, dict):
            expected = 'an object {"data": [...]}, as SQuAD and PaddleNLP\'s CMRC 2018 have it'
            self.refuse(f"the file is a JSON {json_type(self.root)}", expected, self.root)

    def line(self, value: object) -> int:
        """The line on which an object or array begins; 1 for other values."""
        return self.line_at(self.places.get(id(value), 0))

    def line_at(self, place: int) -> int:
        return 1 + bisect_right(self.line_ends, place)

    def repaired(self, what: str, value: object, question: dict) -> bool:
        """Note that something is repaired here; False where the policy is strict."""
        if self.policy == "repair":
            self.repairs.setdefault(what, []).append(self.line(value))
            self.repaired_ids.setdefault(what, []).append(shown(question["id"]))
        return self.policy == "repair"

    def refuse(self, problem: str, expected: str, value: object) -> None:
        raise InputError(self.path, problem, expected, self.line(value))

    def get(self, value: dict, key: str, kind: type, where: str):
        if key not in value:
            problem = f"{where} has no {key!r} (found {listed(value) or 'nothing'})"
            self.refuse(problem, key, value)
        item = value[key]
        if not isinstance(item, kind) or isinstance(item, bool):
            names = {str: "a string", list: "an array", int: "a whole number"}
            what = item if kind is int and isinstance(item, float) else f"JSON {json_type(item)}"
            self.refuse(f"{where}.{key} is {what}", names[kind], value)
        return item

    def objects(self, value: dict, key: str, where: str) -> Iterator[tuple[str, dict]]:
        for number, item in enumerate(self.get(value, key, list, where)):
            place = f"{where}.{key}[{number}]".removeprefix("the file.")
            if not isinstance(item, dict):
                holder = item if isinstance(item, list) else value[key]
                self.refuse(f"{place} is a JSON {json_type(item)}", "an object", holder)
            yield place, item

    def text(self, value: dict, key: str, where: str) -> str:
        text = self.get(value, key, str, where)
        return check_text(text, self.path, self.line(value), f"{where}.{key}")


class _Decoder(json.JSONDecoder):
    """Also notes where in the text each object and array begins, by its id()."""

    def __init__(self) -> None:
        # A number that Python would not convert (thousands of digits) becomes a float, which no
        # place below takes for a whole number.
        super().__init__(parse_int=lambda digits: (int if len(digits) < 19 else float)(digits))
        self.places: dict[int, int] = {}
        self.last = 0  # where the innermost value so far begins
        self.parse_object = self._noting(json.decoder.JSONObject)  # type: ignore[attr-defined]
        self.parse_array = self._noting(json.decoder.JSONArray)  # type: ignore[attr-defined]
        # The scanner in C would not call these.
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]

    def _noting(self, parse):
        def noted(text_and_end, *arguments):
            start = self.last = text_and_end[1] - 1
            value, end = parse(text_and_end, *arguments)
            self.places[id(value)] = start
            return value, end

        return noted
