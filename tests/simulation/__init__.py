"""The whole stack on the seeded clock: fault schedules, crashes, old views, two leaders, planted faults."""
