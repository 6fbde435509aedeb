import { Command } from 'commander';
import { PicketError } from '../protocol/errors.js';
import { ask, askAll, type Detector, queryOf, table, withDetector } from './detector-client.js';

interface Notification {
  readonly id: string;
  readonly receiver: string;
  readonly state: string;
  readonly attempts: number;
  readonly changed_at: string;
  readonly error: string | null;
  readonly incidents: readonly string[];
}

interface ListOptions extends Detector {
  readonly state?: string;
  readonly receiver?: string;
}

interface RedriveOptions extends Detector {
  readonly receiver?: string;
  readonly all?: boolean;
}

export function notificationsCommand(): Command {
  const command = new Command('notifications')
    .exitOverride()
    .description('What a running detector has told its receivers, and what it could not.');
  withDetector(command.command('list'))
    .description('Messages, the newest first.')
    .option('--state <state>', 'pending, failed, delivered, dead (given up) or void (nothing to tell)')
    .option('--receiver <name>', 'of one receiver')
    .action(async ({ state, receiver, ...detector }: ListOptions) => {
      const { items } = await askAll<{ items: Notification[] }>(
        detector,
        '/v1/notifications',
        queryOf({ state, receiver }),
      );
      const header = ['ID', 'RECEIVER', 'STATE', 'TRIES', 'CHANGED', 'INCIDENTS', 'ERROR'];
      console.log(table([header, ...items.map(rowOf)]));
    });
  withDetector(command.command('redrive [id...]'))
    .description(
      'Has what was given up told after all, as things are now; what is over without having been told is not.',
    )
    .option('--receiver <name>', 'all of one receiver')
    .option('--all', 'of every receiver')
    .action(async (ids: string[], { receiver, all, ...detector }: RedriveOptions) => {
      if (ids.length > 0 === (receiver !== undefined || all === true))
        throw new PicketError('bad_input', 'give either ids, or --receiver or --all');
      const paths = ids.map((id) => `/v1/notifications/${encodeURIComponent(id)}/redrive`);
      let redriven = 0;
      for (const path of ids.length > 0 ? paths : [`/v1/notifications/redrive?${queryOf({ receiver })}`])
        redriven += (await ask<{ redriven: number }>(detector, 'POST', path)).redriven;
      console.log(`${redriven} to be told again`);
    });
  return command;
}

const rowOf = ({ id, receiver, state, attempts, changed_at, error, incidents }: Notification): string[] => [
  ...[id, receiver, state, String(attempts), changed_at],
  ...[
    incidents.length > 3 ? `${incidents.slice(0, 3).join(',')} and ${incidents.length - 3} more` : incidents.join(','),
  ],
  error ?? '',
];
