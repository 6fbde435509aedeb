import { userInfo } from 'node:os';
import { Command } from 'commander';
import { PicketError } from '../protocol/errors.js';
import { ask, type Detector, queryOf, table, withDetector } from './detector-client.js';

interface Silence {
  readonly id: string;
  readonly status: string;
  readonly match: Readonly<Record<string, string | readonly string[]>>;
  readonly starts_at: string;
  readonly ends_at: string;
  readonly author: string;
  readonly reason: string;
}

interface AddOptions extends Detector {
  readonly match: readonly string[];
  readonly for?: string;
  readonly until?: string;
  readonly from?: string;
  readonly author: string;
  readonly reason: string;
}

export function silencesCommand(): Command {
  const command = new Command('silences')
    .exitOverride()
    .description('Keeps a running detector from telling of some incidents for a time.');
  withDetector(command.command('list'))
    .description('Silences that are kept, the newest first.')
    .option('--status <status...>', 'pending, active or expired')
    .action(async ({ status, ...detector }: Detector & { status?: string[] }) => {
      const { items } = await ask<{ items: Silence[] }>(detector, 'GET', `/v1/silences?${queryOf({ status })}`);
      const rows = items.map(({ id, status, ends_at, author, match, reason }) => [
        ...[id, status, ends_at, author, matchText(match), reason],
      ]);
      console.log(table([['ID', 'STATUS', 'ENDS', 'AUTHOR', 'MATCH', 'REASON'], ...rows]));
    });
  withDetector(command.command('add'))
    .description('Adds one and prints its id.')
    .requiredOption('--match <label=glob...>', 'which incidents; a label given twice: either glob')
    .option('--for <duration>', 'how long, such as 2h')
    .option('--until <time>', 'RFC 3339, instead of --for')
    .option('--from <time>', 'RFC 3339; default: now')
    .option('--author <name>', 'who asks for it', userInfo().username)
    .requiredOption('--reason <text>', 'why')
    .action(async (options: AddOptions) => {
      const { author, reason } = options;
      if ((options.for === undefined) === (options.until === undefined))
        throw new PicketError('bad_input', 'give either --for or --until', { remedy: 'such as --for 2h' });
      const times = { starts_at: options.from, ends_at: options.until, duration: options.for };
      const { id } = await ask<Silence>(options, 'POST', '/v1/silences', {
        match: matchOf(options.match),
        ...times,
        author,
        reason,
      });
      console.log(id);
    });
  withDetector(command.command('expire <id...>'))
    .description('Ends silences now.')
    .action(async (ids: string[], detector: Detector) => {
      for (const id of ids) await ask<Silence>(detector, 'DELETE', `/v1/silences/${encodeURIComponent(id)}`);
    });
  return command;
}

function matchOf(texts: readonly string[]): Record<string, string[]> {
  const match: Record<string, string[]> = {};
  for (const text of texts) {
    const at = text.indexOf('=');
    if (at < 1)
      throw new PicketError('bad_input', `"${text}" is not label=glob`, {
        field: '--match',
        remedy: 'write --match job=llama*',
      });
    const name = text.slice(0, at);
    match[name] = [...(match[name] ?? []), text.slice(at + 1)];
  }
  return match;
}

const matchText = (match: Silence['match']): string =>
  Object.entries(match)
    .map(([name, globs]) => `${name}=${[globs].flat().join('|')}`)
    .join(',');
