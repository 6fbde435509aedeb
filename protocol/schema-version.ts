import { PicketError } from './errors.js';

/** Schema metadata of every message: `name/major`. */
export const SCHEMA_KEY = 'picket.schema';

/** Throws `bad_input` for another schema, `unsupported_version` for another major version of it. */
export function checkSchema(version: string | undefined, expected: string, expectedMajor: number): void {
  const [name, major] = (version ?? '').split('/');
  const wanted = `${expected}/${expectedMajor}`;
  if (name !== expected)
    throw new PicketError('bad_input', `schema "${version ?? ''}" where "${wanted}" was expected`, {
      field: SCHEMA_KEY,
    });
  if (Number.parseInt(major ?? '', 10) !== expectedMajor)
    throw new PicketError('unsupported_version', `schema "${version}" is not supported`, {
      field: SCHEMA_KEY,
      remedy: `this reader knows ${wanted}; upgrade the older side`,
    });
}
