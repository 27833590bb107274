// Numbers and times as people read them.
"use strict";

const Format = (() => {
  const digits = (value, places) =>
    value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });

  // Three significant digits or so: 1.23, 12.3, 123.
  function short(value) {
    const size = Math.abs(value);
    return digits(value, size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : 2);
  }

  const TIME_UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
  const BYTE_UNITS = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 1024], ["B", 1]];

  const unitOf = (units, size) => units.find(([, one]) => size >= one) || units[units.length - 1];

  function scaled(units, value) {
    const [name, one] = unitOf(units, Math.abs(value));
    return `${one === 1 ? digits(value, 0) : short(value / one)} ${name}`;
  }

  const percent = (share) => `${digits(share * 100, share !== 0 && Math.abs(share) < 0.1 ? 2 : 1)} %`;
  let sharesTrust = "whole";

  return {
    ns: (value) => (value === 0 ? "0" : scaled(TIME_UNITS, Math.round(value))),
    bytes: (value) => (value === 0 ? "0" : scaled(BYTE_UNITS, Math.round(value))),
    count: (value) => digits(value, 0),
    number: (value) => short(value),
    percent,
    // A part of what the capture says of a whole. Where events were lost, it is marked as what it is,
    // or not said at all: see trustShares().
    share: (part, whole) =>
      (sharesTrust === "withheld" || !(whole > 0) ? "–" : `${sharesTrust === "marked" ? "≈ " : ""}${percent(part / whole)}`),
    // "whole", "marked" or "withheld", as the quality's grade has it.
    trustShares: (trust) => { sharesTrust = trust; },
    saysShares: () => sharesTrust !== "withheld",
    // One unit for all of an axis: {name, one}.
    timeUnit: (most) => unitOf(TIME_UNITS, most),
    byteUnit: (most) => unitOf(BYTE_UNITS, most),
    short,
    // "kernel_wait" and "KERNEL_WAIT" as words.
    words: (name) => name.toLowerCase().replaceAll("_", " "),
  };
})();
