// Pointing and dragging on a drawing: by mouse, pen or finger.

import { useRef } from "../vendor/preact.js";

/**
 * The properties of an element on which a reader points or drags to set a value; a control has to do
 * the same for the keyboard. `at(place, start)` is the value at a place { x, y }, from 0 to 1 in the box of
 * the element, less or more outside; `start` is the place at which the pointer went down, and the `value`
 * then. A finger that swipes up or down scrolls the page, and the value from before returns.
 */
export function useDrag(value, set, at) {
  const start = useRef(null);
  const placeOf = ({ currentTarget, clientX, clientY }) => {
    const { left, top, width, height } = currentTarget.getBoundingClientRect();
    return { x: (clientX - left) / width, y: (clientY - top) / height };
  };
  const move = (event) => set(at(placeOf(event), start.current));
  const begin = (event) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    start.current = { ...placeOf(event), value };
    move(event);
  };
  return {
    // In Chromium, an inline element has no touch-action, and what is inside an SVG drawing is inline by default.
    style: { display: "block", touchAction: "pan-y", userSelect: "none" },
    onPointerDown: begin,
    onPointerMove: (event) => event.currentTarget.hasPointerCapture(event.pointerId) && move(event),
    onPointerCancel: () => set(start.current.value),
  };
}

/** Which of `count` equal parts contains a place; the first or the last outside. */
export function partAt(place, count) {
  return Math.min(count - 1, Math.max(0, Math.floor(place * count)));
}
