"""Waves and modern physics: Doppler shift, photoelectric effect, radioactive decay."""

from __future__ import annotations

import math

from specvet.data.physics.families.base import Degenerate, Draw, Situation, Step, Target, plain, q

H, C, EV = 6.626e-34, 2.998e8, 1.602e-19
"""J s, m/s, J."""
HC = H * C / EV * 1e9
"""eV nm."""
HC_TEXT = "6.626*10**(-34)*2.998*10**8/(1.602*10**(-19))*10**9"


def doppler(draw: Draw) -> Situation:
    """A siren drives past: its speed and its own pitch follow from what is heard before and after."""
    sound, v, f = draw.number(330, 346, 1), draw.number(8, 60, 0.5), draw.number(250, 1500, 5)
    listener = draw.number(2, 20, 0.5)
    near, far = float(f"{f * sound / (sound - v):.5g}"), float(f"{f * sound / (sound + v):.5g}")
    speed = sound * (near - far) / (near + far)
    own = 2 * near * far / (near + far)
    meets = near / sound * (sound + listener)
    pair = Step(
        "f1 = f c/(c - v) before, f2 = f c/(c + v) after; solve for the speed v and the emitted frequency f.",
        f"N(solve([Eq({plain(near)}*({plain(sound)} - v), f*{plain(sound)}), "
        f"Eq({plain(far)}*({plain(sound)} + v), f*{plain(sound)})], [v, f]), 6)",
    )
    what = draw.one(("an ambulance", "a train", "a motorcycle", "a fire engine", "a police car"))
    return Situation(
        (
            f"Standing beside the road, you hear a tone of {q(near, 'Hz')} from {what} that comes straight towards you "
            f"and {q(far, 'Hz')} after it has passed. Its speed is constant, that of sound is {q(sound, 'm/s')}.",
            f"The siren of {what} sounds at {q(near, 'Hz')} while it approaches a person at rest, and at "
            f"{q(far, 'Hz')} while it moves away at the same speed. Sound travels at {q(sound, 'm/s')}.",
            f"A microphone that does not move records {what}: first {q(near, 'Hz')}, as it draws nearer, later "
            f"{q(far, 'Hz')}, as it recedes. Both the velocity of the source and that of sound ({q(sound, 'm/s')}) "
            "stay the same.",
            f"While {what} passes at uniform velocity, the pitch for a listener who sits still drops from "
            f"{q(near, 'Hz')} to {q(far, 'Hz')}; air carries sound with {q(sound, 'm/s')} on that day.",
        ),
        {"c": (sound, "m/s"), "f1": (near, "Hz"), "f2": (far, "Hz"), "u": (listener, "m/s")},
        (
            Target(
                "speed",
                ("How fast does it drive?", "What is the speed of the source?"),
                (pair,),
                speed,
                "m/s",
                mistakes=(
                    sound * (near - far) / near,
                    sound * (near - far) / far,
                    sound * (near - far) / (2 * (near + far)),
                    sound * (1 - far / near) / 2 + 3,
                ),
                hard=True,
            ),
            Target(
                "own",
                ("Which frequency does it emit?", "What frequency would somebody on board hear?"),
                (pair,),
                own,
                "Hz",
                mistakes=(near, far, near + far, near * (1 + speed / sound) * 1.05),
                tolerance=0.005,
                hard=True,
            ),
            Target(
                "meets",
                (
                    f"What frequency would be heard before the encounter by somebody who moves towards it at "
                    f"{q(listener, 'm/s')}?",
                    f"Which frequency does an observer hear who approaches it head-on at {q(listener, 'm/s')}, before "
                    "they meet?",
                ),
                (
                    Step(
                        "A moving observer hears (c + u)/c times what one at rest hears there.",
                        f"N({plain(near)}*({plain(sound)} + {plain(listener)})/{plain(sound)}, 6)",
                    ),
                ),
                meets,
                "Hz",
                mistakes=(
                    near * (sound - listener) / sound * 0.98,
                    own * (sound + listener) / sound,
                    near + far,
                    far * (sound + listener) / sound,
                ),
                tolerance=0.005,
            ),
        ),
    )


_METALS = {
    "caesium": 2.1,
    "potassium": 2.3,
    "sodium": 2.36,
    "lithium": 2.93,
    "calcium": 2.87,
    "magnesium": 3.66,
    "aluminium": 4.08,
    "zinc": 4.33,
}
"""Work function in eV."""


def photoelectric(draw: Draw) -> Situation:
    """Light on a metal: stopping voltage, speed of electrons, threshold; h from two measurements."""
    name = draw.one(tuple(_METALS))
    w = _METALS[name]
    limit = HC / w
    wavelength, second = draw.number(150, 0.93 * limit, 5), draw.number(150, 0.93 * limit, 5)
    energy = HC / wavelength - w
    u1, u2 = float(f"{energy:.3g}"), float(f"{HC / second - w:.3g}")
    if energy < 0.15 or abs(wavelength - second) < 40 or min(u1, u2) < 0.1:
        raise Degenerate("too little energy is left, or both wavelengths are close")
    v = math.sqrt(2 * energy * EV / 9.109e-31)
    h = (u1 - u2) * EV / (C * 1e9 * (1 / wavelength - 1 / second))
    left = Step("What is left of the photon, in eV.", f"N({HC_TEXT}/{plain(wavelength)} - {plain(w)}, 6)")
    return Situation(
        (
            f"Light of {q(wavelength, 'nm')} frees electrons from a plate of {name}, whose work function is "
            f"{q(w, 'eV')}, in a vacuum photocell. Use h = 6.626 × 10^-34 J s and c = 2.998 × 10^8 m/s.",
            f"A photocathode of {name} (work function {q(w, 'eV')}) is lit at {q(wavelength, 'nm')}; constants are "
            f"h = 6.626 × 10^-34 J s, c = 2.998 × 10^8 m/s and e = 1.602 × 10^-19 C.",
            f"Electrons need at least {q(w, 'eV')} to leave the surface of {name}. In an experiment on the "
            f"photoelectric effect it is exposed to monochromatic radiation with a wavelength of "
            f"{q(wavelength, 'nm')}.",
            f"Ultraviolet or visible photons, all of wavelength {q(wavelength, 'nm')}, hit clean {name}. The binding "
            f"of its most weakly bound electrons amounts to {q(w, 'eV')}.",
        ),
        {
            "W": (w, "eV"),
            "wavelength": (wavelength, "nm"),
            "second": (second, "nm"),
            "u1": (u1, "V"),
            "u2": (u2, "V"),
        },
        (
            Target(
                "stopping",
                ("What stopping voltage is needed?", "Which voltage just stops the fastest electrons?"),
                (left,),
                energy,
                "V",
                mistakes=(HC / wavelength, HC / wavelength + w, energy / 2, w),
                tolerance=0.01,
            ),
            Target(
                "speed",
                ("How fast are the fastest electrons?", "Find the greatest speed of the electrons that come out."),
                (
                    left,
                    Step(
                        "m v^2/2 is this energy; in km/s.",
                        f"N(sqrt(2*{energy:.8g}*1.602*10**(-19)/(9.109*10**(-31)))/1000, 6)",
                    ),
                ),
                v / 1e3,
                "km/s",
                mistakes=(
                    math.sqrt(2 * HC / wavelength * EV / 9.109e-31) / 1e3,
                    v / 1e3 / math.sqrt(2),
                    v / 1e3 * 2,
                    math.sqrt(2 * w * EV / 9.109e-31) / 1e3,
                ),
                hard=True,
            ),
            Target(
                "threshold",
                (
                    "Above which wavelength do no electrons come out of this metal at all?",
                    "Find the threshold wavelength of the metal.",
                ),
                (
                    Step(
                        "At the threshold h c/lambda = W.",
                        f"N(solve(Eq({HC_TEXT}/x, {plain(w)}), x), 6)",
                    ),
                ),
                limit,
                "nm",
                mistakes=(wavelength, limit / 2, HC / energy, limit * 1.6),
            ),
            Target(
                "planck",
                (
                    f"With another lamp of {q(second, 'nm')} the stopping voltage is {q(u2, 'V')}; at "
                    f"{q(wavelength, 'nm')} it was {q(u1, 'V')}. Which value of h, in 10^-34 J s, follows from both?",
                    f"Stopping voltages of {q(u1, 'V')} at {q(wavelength, 'nm')} and {q(u2, 'V')} at {q(second, 'nm')} "
                    "were measured. What h, in units of 10^-34 J s, do they give?",
                ),
                (
                    Step(
                        "e U = h c/lambda - W at both wavelengths, with W unknown in eV and h in 10^-34 J s.",
                        f"N(solve([Eq({plain(u1)}, h*2.998/1.602/{plain(wavelength)}*100 - W), "
                        f"Eq({plain(u2)}, h*2.998/1.602/{plain(second)}*100 - W)], [h, W]), 6)",
                    ),
                ),
                h * 1e34,
                "",
                mistakes=(
                    u1 * EV * wavelength / (C * 1e9) * 1e34,
                    h * 1e34 / 1.602,
                    (u1 + u2) * EV / (C * 1e9 * (1 / wavelength + 1 / second)) * 1e34,
                    h * 1e34 * 2,
                ),
                hard=True,
            ),
        ),
    )


_NUCLEI = {
    "iodine-131": (8.02, "day"),
    "phosphorus-32": (14.3, "day"),
    "cobalt-60": (5.27, "year"),
    "technetium-99m": (6.01, "hour"),
    "fluorine-18": (110.0, "minute"),
    "caesium-137": (30.1, "year"),
    "tritium": (12.3, "year"),
    "sodium-24": (15.0, "hour"),
    "radon-222": (3.82, "day"),
}


def decay(draw: Draw) -> Situation:
    """A source that decays: activity later, age, number of nuclei."""
    name = draw.one(tuple(_NUCLEI))
    half, unit = _NUCLEI[name]
    start = draw.number(20, 900, 5)
    t = float(f"{half * draw.number(0.2, 4, 0.05):.3g}")
    later = start * 2 ** (-t / half)
    percent = draw.number(3, 80, 1)
    wait = half * math.log(100 / percent) / math.log(2)
    if abs(percent - 50) < 2 or abs(t / half - 1) < 0.05:
        raise Degenerate("one half-life needs no calculation")
    seconds = {"minute": 60, "hour": 3600, "day": 86400, "year": 31557600}[unit]
    nuclei = start * 1e3 * half * seconds / math.log(2)
    span = f"{plain(t)} {unit}s"
    return Situation(
        (
            f"A sample of {name}, whose half-life is {plain(half)} {unit}s, has an activity of {q(start, 'kBq')} when "
            "it is delivered to a laboratory.",
            f"A hospital measures {q(start, 'kBq')} on a fresh source of {name}; this nuclide decays with a half-life "
            f"of {plain(half)} {unit}s.",
            f"When a counter is first held to some {name} it shows an activity of {q(start, 'kBq')}. Half of such "
            f"nuclei decay within {plain(half)} {unit}s.",
            f"The label on a flask with {name} says {q(start, 'kBq')} on the day of filling, and a table gives "
            f"{plain(half)} {unit}s as the time in which the activity halves.",
        ),
        {"half": (half, unit), "A": (start, "kBq"), "t": (t, unit), "percent": (percent, "percent")},
        (
            Target(
                "later",
                (f"What is its activity after {span}?", f"Find the activity {span} later."),
                (
                    Step(
                        "A = A0 2^(-t/T).",
                        f"N({plain(start)}*2**(-{plain(t)}/{plain(half)}), 6)",
                    ),
                ),
                later,
                "kBq",
                mistakes=(
                    start * math.exp(-t / half),
                    start * max(0.05, 1 - t / (2 * half)),
                    start - later,
                    start * 2 ** (-half / t),
                ),
            ),
            Target(
                "wait",
                (
                    f"After how many {unit}s is {plain(percent)} % of the activity left?",
                    f"How long, in {unit}s, until the activity has fallen to {plain(percent)} % of that value?",
                ),
                (
                    Step(
                        "Solve 2^(-t/T) for the time, starting near the half-life.",
                        f"nsolve(Eq(2**(-t/{plain(half)}), {plain(percent)}/100), t, {plain(half)})",
                    ),
                ),
                wait,
                unit,
                mistakes=(
                    half * math.log(100 / percent),
                    half * math.log(100 / (100 - percent)) / math.log(2),
                    half * (100 - percent) / 50,
                    half * percent / 50,
                ),
                hard=True,
            ),
            Target(
                "nuclei",
                (
                    "How many nuclei of it does the sample hold at first, in units of 10^9?",
                    "Find the number of its nuclei at the start, in billions (10^9).",
                ),
                (
                    Step(
                        "A = N log(2)/T with T in seconds and A in Bq.",
                        f"N({plain(start)}*1000*{plain(half)}*{seconds}/log(2)/10**9, 6)",
                    ),
                ),
                nuclei / 1e9,
                "",
                mistakes=(
                    nuclei / 1e9 * math.log(2),
                    nuclei / 1e9 * math.log(2) ** 2,
                    nuclei / 1e9 / 1000,
                    nuclei / 1e9 / seconds * 3600 if unit != "hour" else nuclei / 60e9,
                ),
                hard=True,
            ),
        ),
    )
