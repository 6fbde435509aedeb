import * as z from 'zod';
import type { JobMeta } from '../../protocol/job-meta.js';

/**
 * Runs that can be expected to take equally long: same engine, model, device and configuration. What a source does not
 * say is '' and equals only what others do not say either: an unknown model is not taken for a known one.
 */
export const PopulationKey = z.strictObject({
  engine: z.string(),
  engine_version: z.string(),
  model: z.string(),
  device: z.string(),
  config_hash: z.string(),
});
export type PopulationKey = z.infer<typeof PopulationKey>;

export const populationKey = (meta: JobMeta): PopulationKey => ({
  engine: meta.engine ?? '',
  engine_version: meta.engine_version ?? '',
  model: meta.model ?? '',
  device: meta.device ?? '',
  config_hash: meta.config_hash ?? '',
});

export const populationName = ({ engine, engine_version, model, device, config_hash }: PopulationKey): string =>
  [engine, engine_version, model, device, config_hash].join('\0');

/** For people. */
export function describePopulation(key: PopulationKey): string {
  const known = Object.entries(key).filter(([, value]) => value !== '');
  return known.length === 0 ? 'all unknown' : known.map(([name, value]) => `${name} ${value}`).join(', ');
}
