import * as z from 'zod';
import { MAX_RANK } from './limits.js';
import { cleanName } from './names.js';

const Nanoseconds = z
  .union([z.int(), z.string().regex(/^-?\d{1,19}$/)])
  .transform((value) => BigInt(value))
  .refine((value) => value === BigInt.asIntN(64, value), 'beyond 64 bits');

/** One value of an engine metric or a hardware counter, or an event. */
export const SampleRow = z.strictObject({
  time_ns: Nanoseconds,
  job: z.string().optional(),
  host: z.string().default(''),
  rank: z.int().min(-1).max(MAX_RANK).default(-1),
  gpu: z.string().default(''),
  nic: z.string().default(''),
  link: z.string().default(''),
  name: z.string().min(1).transform(cleanName),
  /** Also as a decimal string: JSON readers quote integers that a double might round. */
  value: z.union([
    z.number(),
    z
      .string()
      .regex(/^-?\d{1,300}$/)
      .transform(Number),
  ]),
  unit: z.string().default(''),
  /** A counter: only its increments mean something. */
  cumulative: z.boolean().default(false),
});
export type SampleRow = z.infer<typeof SampleRow>;
