"""Which rules are run on which subjects: of the registry, or of somebody's own Function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from .. import registry
from ..case import Key
from ..spec import dtype_name, dtype_named
from ..terms import COMPILED, DEVICES, unknown
from . import rules
from .rule import FULL, LEVELS, QUICK, Rule
from .runner import Job
from .subject import Subject, of_variant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..spec import Spec

# The reference in float64 on a large workload takes seconds and memory and finds what `small` finds.
WORKLOADS = ("tiny", "small")
# What says nothing of a kernel that Triton's interpreter runs, and why.
UNTRUE_INTERPRETED = {
    "hidden-state": "Triton's interpreter keeps what a kernel was given until garbage is collected",
    "thread-safety": "Triton's interpreter runs in one thread at a time",
    "timing-denormals": "Triton's interpreter takes times that are no device's",
}
# What one without a Spec is called where a case has a variant and a workload.
GIVEN = "given"


@dataclass(frozen=True)
class Check:
    """One rule on one case. suppressed: why its findings do not count, or an empty string."""

    key: Key
    job: Job
    suppressed: str = ""


def chosen(
    select: Sequence[str] | None = None, ignore: Sequence[str] | None = None, level: str = QUICK
) -> tuple[Rule, ...]:
    """The rules of a level, those selected (a name or a pattern such as "compile-*"; None: all) and not ignored.

    A rule selected by its whole name is run whatever the level. Raises LookupError for a pattern that no rule has,
    ValueError for an unknown level.
    """
    if level not in LEVELS:
        raise ValueError(f"level: must be one of {', '.join(LEVELS)}, got {level!r}")
    names = [rule.id for rule in rules()]
    for pattern in (*(select or ()), *(ignore or ())):
        if not any(fnmatchcase(name, pattern) for name in names):
            raise unknown("there is no rule", pattern, names)
    return tuple(
        rule
        for rule in rules()
        if (level == FULL or rule.level == QUICK or rule.id in (select or ()))
        and (not select or any(fnmatchcase(rule.id, pattern) for pattern in select))
        and not any(fnmatchcase(rule.id, pattern) for pattern in ignore or ())
    )


def of_registry(
    functions: Sequence[str] | None = None,
    *,
    variants: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
    device: str = "cpu",
    rules: Sequence[Rule],
    level: str = QUICK,
) -> list[list[Check]]:
    """The checks of each variant of each Function: a list a variant, to be run in one worker.

    At level quick, variants that compile are n/a. Raises LookupError for an unknown Function, variant, dtype, device.
    """
    names = list(functions) if functions else list(registry.names())
    _refuse_unknown(names, variants, dtypes, device)
    return [
        list(_of_variant(registry.spec(name), found, dtypes, device, rules, level))
        for name in names
        for found in registry.variants(name)
        if not variants or found.name in variants
    ]


def of_subject(subject: Subject, rules: Sequence[Rule], suppress: Mapping[str, str] | None = None) -> list[Check]:
    """The checks of one Function that is in no registry."""
    key = Key(subject.who, GIVEN, subject.workload, dtype_name(subject.dtype), subject.device)
    return [Check(key, Job(rule, lambda: subject), (suppress or {}).get(rule.id, "")) for rule in rules]


def _of_variant(
    spec: Spec,
    variant: registry.Variant,
    dtypes: Sequence[str] | None,
    device: str,
    rules: Sequence[Rule],
    level: str,
) -> Iterator[Check]:
    exact = "float64" if "float64" in spec.dtypes else spec.dtypes[0]
    smallest = [(exact, WORKLOADS[0])] if not dtypes or exact in dtypes else []
    every = [(dtype, workload) for dtype in spec.dtypes if not dtypes or dtype in dtypes for workload in WORKLOADS]
    interpreted = variant.kind == "triton" and device == "cpu" and registry.is_interpreted()
    for rule in rules:
        for dtype, workload in every if rule.every_case else smallest:
            key = Key(spec.name, variant.name, workload, dtype, device)
            make = _Making(spec, variant, key, level, UNTRUE_INTERPRETED.get(rule.id, "") if interpreted else "")
            compiles = variant.kind in COMPILED and level == FULL
            builds = variant.kind == "cpp" and not registry.is_built_in(spec.name)
            job = Job(rule, make, compiles, builds, interpreted)
            yield Check(key, job, _suppressed(spec, rule, variant))


def _suppressed(spec: Spec, rule: Rule, variant: registry.Variant) -> str:
    """Why the Spec says that findings of the rule do not count: for the variant, or for every one."""
    return spec.suppress.get(f"{rule.id} ({variant.name})") or spec.suppress.get(rule.id, "")


@dataclass(frozen=True)
class _Making:
    """Loads the subject when it is checked, so that one that cannot be loaded is a row with its reason.

    untrue: why the rule says nothing of it here, if so.
    """

    spec: Spec
    variant: registry.Variant
    key: Key
    level: str
    untrue: str = ""

    def __call__(self) -> Subject:
        if self.untrue:
            raise NotImplementedError(self.untrue)
        if self.level == QUICK and self.variant.kind in COMPILED:
            raise NotImplementedError("compiles, so it is checked at --level full")
        apply = _loaded(self.spec.name, self.variant.name, self.key.device)
        if self.variant.kind in COMPILED:
            from ..compiled import forget

            forget()
        return of_variant(
            self.spec, self.variant.name, self.variant.kind, apply,
            dtype=dtype_named(self.key.dtype), workload=self.key.workload, device=self.key.device,
        )  # fmt: skip


def _loaded(function: str, variant: str, device: str) -> Callable[..., Any]:
    try:
        return registry.load(function, variant, device)
    except NotImplementedError as error:
        raise NotImplementedError(str(error).removeprefix(f"{function} ({variant}): ")) from error


def _refuse_unknown(
    names: Sequence[str], variants: Sequence[str] | None, dtypes: Sequence[str] | None, device: str
) -> None:
    known = {found.name for name in names for found in registry.variants(name)}
    known_dtypes = {dtype for name in names for dtype in registry.spec(name).dtypes}
    for name in variants or ():
        if name not in known:
            raise unknown("there is no variant", name, sorted(known))
    for name in dtypes or ():
        if name not in known_dtypes:
            raise unknown("there is no dtype", name, sorted(known_dtypes))
    if device not in DEVICES:
        raise unknown("there is no device", device, DEVICES)


def with_suppressed(checks: Sequence[Check], suppress: Mapping[str, str]) -> list[Check]:
    """The checks, with the findings of the named rules suppressed for the reason given."""
    return [replace(each, suppressed=suppress.get(each.job.rule.id, each.suppressed)) for each in checks]
