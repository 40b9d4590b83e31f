"""The placement problem and its answer: the values that go into the engine and come out of it."""
