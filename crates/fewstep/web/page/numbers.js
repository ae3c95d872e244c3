// Numbers of a report, as the command line writes them.

/** Digits behind the point at which every number on this page is known exactly. */
const EXACT_DIGITS = 100;

/** `toFixed` or `toExponential` with halves to the even digit: JavaScript takes the larger one. */
function halfEven(value, form, decimals) {
  const rounded = value[form](decimals);
  const [mantissa, exponent] = value[form](EXACT_DIGITS).split("e");
  const cut = mantissa.length - EXACT_DIGITS + decimals;
  const kept = mantissa.slice(0, decimals === 0 ? cut - 1 : cut);
  const isHalf = /^50*$/.test(mantissa.slice(cut));
  if (!isHalf || !/[02468]$/.test(kept)) return rounded;
  return exponent === undefined ? kept : `${kept}e${exponent}`;
}

/** A number to three digits, as a person would write it. */
export function number(value) {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return "–";
  const exponential = halfEven(value, "toExponential", 2).replace("e+", "e");
  // After rounding: 0.09999 is 1.00e-1.
  const power = Number(exponential.split("e")[1]);
  if (power < -4 || power > 4) return exponential;
  return halfEven(value, "toFixed", Math.max(0, 2 - power));
}

/** A share in whole percent. */
export const percent = (share) => `${halfEven(100 * share, "toFixed", 0)} %`;

/** What stands at `how_far.evidence[3]` and the like. */
export function at(report, path) {
  return path
    .split(/[.[\]]+/)
    .filter(Boolean)
    .reduce((value, key) => value?.[key], report);
}
