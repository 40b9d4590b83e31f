"""Why a gang was refused: the part to blame, the closest domains, the blockers, and the relaxations that would help."""
