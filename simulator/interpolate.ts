/** Points of a function, by rising x. */
export type Points = readonly (readonly [x: number, y: number])[];

/** Linear between the points; beyond the last as between the last two, before the first as at it. */
export function interpolate(points: Points, x: number): number {
  let [fromX, fromY] = points[0] as (typeof points)[number];
  if (x <= fromX) return fromY;
  let [toX, toY] = [fromX, fromY];
  for (let i = 1; i < points.length; i++) {
    [fromX, fromY] = [toX, toY];
    [toX, toY] = points[i] as (typeof points)[number];
    if (x <= toX) break;
  }
  return fromY + ((x - fromX) / (toX - fromX)) * (toY - fromY);
}
