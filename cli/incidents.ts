import { userInfo } from 'node:os';
import { Command } from 'commander';
import type { IncidentList, ShownIncident } from '../detector/http/incident-routes.js';
import { ask, askAll, type Detector, queryOf, table, withDetector } from './detector-client.js';
import { printable } from './printable.js';
import { renderIncident } from './render.js';

interface ListOptions extends Detector {
  readonly json?: boolean;
  readonly status: readonly string[];
  readonly partOf?: string;
}

interface AckOptions extends Detector {
  readonly author: string;
  readonly note?: string;
}

export function incidentsCommand(): Command {
  const command = new Command('incidents').exitOverride().description('Incidents of a running detector.');
  withDetector(command.command('list'))
    .description('Incidents, the newest first; a filter with several values takes any of them.')
    .option('--status <status...>', 'open, acknowledged, resolved', ['open', 'acknowledged'])
    .option('--kind <kind...>', 'such as straggler')
    .option('--severity <severity...>', 'info, warning, critical')
    .option('--job <job...>')
    .option('--rank <rank...>')
    .option('--rule <id...>')
    .option('--part-of <id>', 'members of a storm')
    .option('--since <time>', 'RFC 3339: not over before it')
    .option('--until <time>', 'RFC 3339: begun by it')
    .option('--silenced', 'only those that a silence holds back')
    .option('--no-silenced', 'only the others')
    .option('--json', 'a JSON array, as the API shows them')
    .action(async ({ url, tokenFile, json, partOf, ...filter }: ListOptions) => {
      const { items, stale } = await askAll<IncidentList>(
        { url, tokenFile },
        '/v1/incidents',
        queryOf({ ...filter, part_of: partOf }),
      );
      if (stale)
        console.error('picket: a job that is asked for sends nothing any more: that it has no incident means little');
      if (json) return console.log(JSON.stringify(items, null, 2));
      console.log(table([['ID', 'SEVERITY', 'STATUS', 'KIND', 'JOB', 'STARTED', 'SUMMARY'], ...items.map(rowOf)]));
    });
  withDetector(command.command('show <id>'))
    .description('One incident with its evidence and its history.')
    .option('--json', 'as the API shows it')
    .action(async (id: string, { json, ...detector }: Detector & { json?: boolean }) => {
      const incident = await ask<ShownIncident>(detector, 'GET', pathOf(id));
      console.log(json ? JSON.stringify(incident, null, 2) : detailsOf(incident));
    });
  withDetector(command.command('ack <id...>'))
    .description('Notes that somebody takes care of incidents.')
    .option('--author <name>', 'who', userInfo().username)
    .option('--note <text>', 'what is being done')
    .action(async (ids: string[], { author, note, ...detector }: AckOptions) => {
      for (const id of ids) {
        const { status } = await ask<ShownIncident>(detector, 'POST', `${pathOf(id)}/ack`, { author, note });
        console.log(`${id} ${status}`);
      }
    });
  return command;
}

const pathOf = (id: string): string => `/v1/incidents/${encodeURIComponent(id)}`;

const statusOf = ({ status, silenced_by }: ShownIncident): string =>
  silenced_by.length > 0 ? `${status}, silenced` : status;

const rowOf = (incident: ShownIncident): string[] => [
  ...[incident.id, incident.severity, statusOf(incident), incident.kind, incident.subject.job],
  ...[incident.started_at.replace(/\.\d+Z$/, 'Z'), incident.summary],
];

const detailsOf = (incident: ShownIncident): string =>
  [
    renderIncident(incident),
    `  status    ${statusOf(incident)}`,
    ...incident.silenced_by.map((id) => `  silenced  by ${id}`),
    `  rule      ${incident.rule.id}`,
    ...incident.timeline
      .map(({ at, step, event, note }) => `  ${at}  ${event} at step ${step}${note && `: ${note}`}`)
      .map(printable),
  ].join('\n');
