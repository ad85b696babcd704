// The colours of the page, for what is drawn on a canvas; they come from page.css, so that dark and light agree.

let known = null;

/** The colour of the CSS variable `--name`. */
export function colour(name) {
  known ??= getComputedStyle(document.documentElement);
  return known.getPropertyValue(`--${name}`).trim();
}

/** Puts on a theme: `light`, `dark`, or `auto` as the system has it. It is remembered by this browser. */
export function wear(theme) {
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("specvet-theme", theme);
  } catch {
    // A browser that keeps nothing still shows the theme.
  }
}

export function wornTheme() {
  try {
    return localStorage.getItem("specvet-theme") ?? "auto";
  } catch {
    return "auto";
  }
}
