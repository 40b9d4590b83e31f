"""Simulated worlds in which a promise was broken once."""

from __future__ import annotations

import pytest

from simulation.trial import play, replay

SEEDS = [
    19,  # pods of a part that was not complete were held in silence beside a part that ran
    96,  # the same
    158,  # a plan was given up by halves, and nobody asked what became of the rest until a restart
    163,  # a gang kept the seats of a plan that had been given up
    226,  # a gang marked as stale by a clock an hour ahead was left alone for that hour
    70071,  # one part of a gang was preempted, and too few of the other part were left
    123041,  # a plan counted on victims of another plan that was not recorded yet
    123139,  # the seats of a plan that a new leader found were given away before its fence on it was seen
    123145,  # a PodGroup was deleted while a recorded bind was on its way, and the judge saw no record
    200566,  # a gang was refused for children that its queue does not allow, though others would have sufficed
    200965,  # without an election, an epoch went with the last PodGroup that had it, and the judge remembered it
    210036,  # a late member went to another rack than one that had to go for a plan which was not recorded
    310321,  # a gang asked for more while its plan was carried out, and the judge took it for half bound
    410839,  # a tied gang was decided while a bind of its base, recorded by the same leader elsewhere, was not seen
    23935346,  # a tied gang waited for victims while its base grew elsewhere, and the judge took it for split before
    116515593,  # a stale gang asked for less, an old view evicted what was left of it, and the judge knew no old views
    573155749,  # a PodGroup was deleted before the binds of its pods had been seen, and their capacity was given away
    688683677,  # a pod without GPUs on a node whose GPUs were overcommitted since it shrank; the judge
    212058745,  # a plan that waited was carried out for fewer pods than the minimum had become
    116521195,  # a plan was not recorded, and the next was made before the gang that it spared had been read again
    553243519,  # a PodGroup was deleted while an eviction for its recorded plan was on its way; the judge
    771300164,  # a base gang grew elsewhere in the cycle in which a gang tied to it had been decided; the judge
    771301543,  # a bound member's node was given another rack while the rest of its plan was carried out; the judge
    771301790,  # pods that had no room kept the queue's allowance from those that had some, until a restart
    771302583,  # an eviction arrived when the pod had been made anew under its name; the judge looked at the name
    771302710,  # a pod that was bound before the rest of its plan was charged to its queue twice
    771303398,  # a node was given another zone, and all seats of a part for one zone were given up; the judge
    96107324,  # a gang was taken whole but for pods on a node that had just come back
    880102832,  # without an election a plan of a killed scheduler arrived after one of the next; the judge
    532189313,  # a node was lost while the process that had sent a plan was paused; the judge
    570582266,  # a search for moves, once a minute, left out of the reason what other searches had said
    666610168,  # a minimum was raised to pods that were there, and a plan that waited for fewer of them was bound
    502583460,  # a plan was made for a pod that had just been deleted, so that nothing was asked for; the judge
    880100265,  # a plan spared a gang's pod whose node was deleted in the moment before the record; the judge
    771901246,  # every node was deleted, and the history of the seed went on choosing one; the test's kit
]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_broken_once_is_kept(seed: int) -> None:
    assert play(seed).broken == [], replay(seed)
