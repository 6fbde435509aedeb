import { open, readFile, rename } from 'node:fs/promises';
import * as z from 'zod';

const LastGood = z.object({
  version: z.literal(1),
  commit: z.string(),
  files: z.array(z.object({ path: z.string(), text: z.string() })),
});
export type LastGood = Omit<z.output<typeof LastGood>, 'version'>;

/** The last rule set without errors, on disk: what a detector that restarts at a bad commit goes on with. */
export class LastGoodFile {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /** Undefined where there is none, or none that this version can read. */
  async read(): Promise<LastGood | undefined> {
    try {
      return LastGood.safeParse(JSON.parse(await readFile(this.#path, 'utf8'))).data;
    } catch {
      return undefined;
    }
  }

  /** Replaces it as a whole: after a crash the file is the old one or the new one. */
  async write({ commit, files }: LastGood): Promise<void> {
    const draft = `${this.#path}.new`;
    const handle = await open(draft, 'w', 0o600);
    try {
      await handle.writeFile(JSON.stringify({ version: 1, commit, files }));
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, this.#path);
  }
}
