import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { SegmentError } from './errors.js';
import { LAYOUT } from './layout.generated.js';
import type { Native } from './native.js';

const ADDON = 'native/addon/build/Release/picket_native.node';

let loaded: Native | undefined;

/**
 * The addon, loaded at the first call. This is the only place that requires a .node.
 * @throws SegmentError addon_missing where it was never built or cannot be loaded, addon_stale where it was compiled
 *   from another layout than these sources
 */
export function native(): Native {
  loaded ??= checked(load(findAddon()));
  return loaded;
}

// Compiled sources lie at different depths below the repository (dist, test builds).
function findAddon(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    const path = join(folder, ADDON);
    if (existsSync(path)) return path;
    if (folder === dirname(folder)) {
      throw new SegmentError('addon_missing', `${ADDON} is missing; run: make -C native addon`);
    }
  }
}

function load(path: string): Native {
  try {
    return createRequire(import.meta.url)(path) as Native;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SegmentError('addon_missing', `${path} cannot be loaded: ${why}; run: make -C native addon`, { cause });
  }
}

/** Refuses an addon whose layout differs from the generated one. */
export function checked(addon: Native): Native {
  if (isDeepStrictEqual(addon.layout(), LAYOUT)) return addon;
  throw new SegmentError(
    'addon_stale',
    'the native addon was compiled from another ring layout than these sources; run: make -C native addon',
  );
}
