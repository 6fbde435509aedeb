/** The last values of a series, as plain data. */
export interface Ring {
  values: Float64Array;
  count: number;
}

export const newRing = (capacity: number): Ring => ({ values: new Float64Array(capacity), count: 0 });

export function pushRing(ring: Ring, value: number): void {
  ring.values[ring.count++ % ring.values.length] = value;
}

export const ringValues = (ring: Ring): Float64Array =>
  ring.values.subarray(0, Math.min(ring.count, ring.values.length));
