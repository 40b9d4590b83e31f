"""Actions carried out: plans recorded, volumes and pods bound, pods evicted."""
