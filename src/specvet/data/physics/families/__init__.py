"""Families of textbook problems. `FAMILIES` names all: a function that draws a situation, and its subject."""

from __future__ import annotations

from specvet.data.physics.families import circuits, energy, fields, heat, lenses, light, mechanics, modern, motion
from specvet.data.physics.families.base import Degenerate, Draw, Family, Situation, Step, Target

__all__ = ["FAMILIES", "Degenerate", "Draw", "Family", "Situation", "Step", "Target"]

FAMILIES: dict[str, tuple[str, Family]] = {
    "velocity-plot": ("kinematics", motion.velocity_plot),
    "position-plot": ("kinematics", motion.position_plot),
    "motion-function": ("kinematics", motion.motion_function),
    "projectile": ("kinematics", motion.projectile),
    "incline": ("mechanics", mechanics.incline),
    "oscillation": ("mechanics", mechanics.oscillation),
    "circular": ("mechanics", mechanics.circular),
    "collision": ("mechanics", energy.collision),
    "work-energy": ("mechanics", energy.work_energy),
    "resistors": ("circuits", circuits.resistors),
    "kirchhoff": ("circuits", circuits.kirchhoff),
    "rc-circuit": ("circuits", circuits.rc_circuit),
    "charges": ("electromagnetism", fields.charges),
    "magnetic": ("electromagnetism", fields.magnetic),
    "lens-bench": ("optics", lenses.lens_bench),
    "two-lenses": ("optics", lenses.two_lenses),
    "snell": ("optics", light.snell),
    "grating": ("optics", light.grating),
    "ideal-gas": ("thermodynamics", heat.ideal_gas),
    "calorimetry": ("thermodynamics", heat.calorimetry),
    "carnot": ("thermodynamics", heat.carnot),
    "doppler": ("waves", modern.doppler),
    "photoelectric": ("modern physics", modern.photoelectric),
    "decay": ("modern physics", modern.decay),
}
