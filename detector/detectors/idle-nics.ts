import type { Counters } from '../counters/counters.js';
import { type PortTraffic, type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { newSpell, observeSpell, type Spell, type SpellEpisode, spellRule } from '../reference/spell.js';
import { episodeFinding, percent } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * Transfers are spread over some of a host's NICs only, though all of them are in use by the job.
 *
 * Signature (kvcache-ai/Mooncake 429: of eight NICs four carry GB/s and four 10 KB/s): rows name the NICs, and some carry
 * less than a tenth of the busiest. What is lost is the share of the transfers' time that all of them together would not
 * need. A NIC that no row names is not taken for the job's; one whose port was down is not the scheduler's doing.
 */
export const idleNics: Detector<IdleNicsState> = {
  kind: 'sched_imbalance',
  initial: () => ({ hosts: new Map() }),
  step,
};

export interface IdleNicsState {
  hosts: Map<string, { spell: Spell; idle: string[]; busy: string[] }>;
}

const IDLE = 0.1;
const RULE = { window: 20, quiet: 20 };

function step(
  state: IdleNicsState,
  { topology, views, counters }: JobWindow,
  { sched_imbalance }: DetectorParams,
): Finding[] {
  const view = views.at(-1) as StepView;
  for (const [host, ports] of portsByHost(view)) observe(state, view, host, ports, counters, sched_imbalance);
  return [...state.hosts].flatMap(([host, { spell, idle, busy }]) => {
    if (!spell.episode) return [];
    return [
      episodeFinding('sched_imbalance', topology, spell.episode as SpellEpisode, {
        key: `nics=${host}`,
        subject: { hosts: [host], nic: idle.join(',') },
        cause: 'configuration',
        summary: ({ share }) =>
          `NICs ${idle.join(', ')} of ${host} carry next to nothing while ${busy.join(', ')} are busy: ${percent(share)} % of the step is lost`,
        confidence: 0.85,
        evidence: { idle_nics: idle.length, nics: idle.length + busy.length },
        runnerUp: { kind: 'rnic_flap', why_not: 'no port of them was down' },
      }),
    ];
  });
}

function portsByHost(view: StepView): Map<string, PortTraffic[]> {
  const hosts = new Map<string, PortTraffic[]>();
  for (const port of view.ports) {
    if (port.nic === '') continue;
    const ports = hosts.get(port.host);
    if (ports) ports.push(port);
    else hosts.set(port.host, [port]);
  }
  return hosts;
}

function observe(
  state: IdleNicsState,
  view: StepView,
  host: string,
  ports: readonly PortTraffic[],
  counters: Counters | undefined,
  params: DetectorParams['sched_imbalance'],
): void {
  if (ports.length < 2) return;
  const most = Math.max(...ports.map(({ bytes }) => bytes));
  const down = new Set(
    (counters?.byHost.get(host) ?? []).filter(({ outages }) => outages.length > 0).map(({ nic }) => nic),
  );
  const idle = ports.filter(({ bytes, nic }) => bytes < IDLE * most && !down.has(nic)).map(({ nic }) => nic);
  const hit = idle.length > 0;
  let known = state.hosts.get(host);
  if (!known) {
    if (!hit) return;
    state.hosts.set(host, (known = { spell: newSpell(), idle: [], busy: [] }));
  }
  if (hit) Object.assign(known, { idle, busy: ports.map(({ nic }) => nic).filter((nic) => !idle.includes(nic)) });
  const time = stepTimeOf(view);
  const transfers = Math.min(time, Math.max(...ports.map((port) => port.time)));
  const lost = (transfers * idle.length) / ports.length;
  observeSpell(known.spell, { step: view.step, startNs: view.startNs, lost, time, hit }, spellRule(RULE, params));
}
