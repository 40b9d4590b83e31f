"""What every object carries: metadata, owners, conditions.

The slim metadata leaves out managed fields; it is for reading and comparing, never for writing back.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from kube_apimachinery import name_validation
from spinney.api.markers import (
    CONDITION_TYPE_PATTERN,
    REASON_PATTERN,
    Generation,
    Message,
    Slim,
    Timestamp,
    doc,
    listed,
    one_of,
    text,
)


class OwnerReference(Slim, frozen=True):
    """Whose child an object is."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Slim, frozen=True):
    """The part of metadata that decisions are made on."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    generate_name: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the object, if it has one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class PartialObject(Slim, frozen=True):
    """Any object, as far as it concerns everybody: what it is and its metadata."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class Kind(Slim, frozen=True):
    """A kind of ours: where it is served, and the metadata all kinds have. The docstring describes it in its CRD."""

    GROUP: ClassVar[str]
    VERSION: ClassVar[str]
    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    NAMESPACED: ClassVar[bool] = True

    metadata: ObjectMeta


class Condition(Slim, frozen=True):
    """One observation about an object, in the standard form."""

    type: Annotated[
        str, text("What is observed.", most=name_validation.QUALIFIED_NAME_LIMIT - 1, pattern=CONDITION_TYPE_PATTERN)
    ]
    status: Annotated[str, one_of("Whether it holds.", "True", "False", "Unknown")]
    last_transition_time: Annotated[Timestamp, doc("When the status changed last.")]
    reason: Annotated[str, text("Why, in one word for programs.", least=1, most=1024, pattern=REASON_PATTERN)]
    message: Annotated[Message, doc("Why, in a sentence for people.")]
    observed_generation: Annotated[Generation, doc("The generation of the object that this was said about.")] = 0


Conditions = Annotated[tuple[Condition, ...], listed(None, most=32, keys=("type",))]


def condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """The condition of that type."""
    return next((one for one in conditions if one.type == kind), None)
