import * as z from 'zod';

const Seconds = z.number().positive();
const common = {
  /** How often the source is looked at. */
  poll_seconds: Seconds.default(30),
  /** Where the last rule set without errors is kept; default: beside the store. */
  last_good_file: z.string().min(1).optional(),
};
const Folder = z
  .string()
  .min(1)
  .refine((path) => !path.split('/').includes('..'), 'must not leave the tree');

const Repository = z.strictObject({
  ...common,
  source: z.literal('repository'),
  url: z
    .string()
    .regex(/^(https?|ssh|file):\/\/|^[\w.-]+@[\w.-]+:/, 'must be an https, ssh or file URL, or user@host:path')
    .refine((url) => !/^https?:\/\/[^/]*@/.test(url), 'must not hold credentials: give username and password_file'),
  branch: z
    .string()
    .regex(/^[^-\s~^:?*[\\.][^\s~^:?*[\\]*$/, 'is not the name of a branch')
    .default('main'),
  /** Folder of the rules within the repository. */
  path: Folder.default('.'),
  username: z.string().min(1).default('git'),
  password_file: z.string().min(1).optional(),
  password_env: z.string().min(1).optional(),
  ssh_key_file: z.string().min(1).optional(),
  ssh_known_hosts_file: z.string().min(1).optional(),
  /** Where fetched objects are kept; default: beside the store. */
  cache_dir: z.string().min(1).optional(),
});
export type RepositoryConfig = z.output<typeof Repository>;

/** Where a detector takes its rules from, as an operator writes it. */
export const RulesConfig = z.discriminatedUnion('source', [
  z.strictObject({ ...common, source: z.literal('folder'), path: z.string().min(1) }),
  z.strictObject({
    ...common,
    source: z.literal('git_sync'),
    /** The link that git-sync flips (--link). */
    link: z.string().min(1),
    path: Folder.default('.'),
  }),
  Repository,
]);
export type RulesConfig = z.output<typeof RulesConfig>;
