import type { Finding, JobWindow } from '../detectors/finding.js';
import type { JobTopology } from '../pipeline/topology.js';
import { lowerMedian } from '../reference/statistics.js';
import { type Counters, gauge, grownSince, rate, type Source } from './counters.js';
import { throttleWords } from './throttle.js';

/** Kinds of slow transfers between hosts, found by their durations alone. */
const BETWEEN_HOSTS: ReadonlySet<string> = new Set(['rnic_flap', 'comm_slow']);
/** Fewer pause frames a second cannot stop a port of 100 Gb/s for a tenth of the time: each lasts at most 0.34 ms. */
const MIN_PAUSES = 300;
/** Healthy links replay now and then; DCGM's health watch takes any replay for a warning. */
const MIN_LINK_ERRORS = 10;
/** A link that trained down has lost lanes or a generation of signalling, each more than this. */
const SLOW_LINK = 0.9;
/** Errors within so long of the first one came from the same trouble. */
const SAME_ERROR_MS = 1000;

const isOfPort = ({ key }: Finding): boolean => key.startsWith('port=');

/**
 * Says what counters and events add to findings: whose port it is, which link has errors, why a GPU is slow. Counters
 * count from the finding's onset on. Without counters all stay as they are.
 */
export function corroborate(findings: readonly Finding[], { counters, topology }: JobWindow): Finding[] {
  if (!counters || counters.sources.size === 0) return [...findings];
  const ofPorts = new Set(findings.filter(isOfPort).flatMap(({ subject }) => subject.hosts));
  // The port's own finding says more than that of each communicator over it.
  const isOfItsGroup = (finding: Finding): boolean =>
    BETWEEN_HOSTS.has(finding.kind) && !isOfPort(finding) && finding.subject.hosts.some((host) => ofPorts.has(host));
  return findings.filter((finding) => !isOfItsGroup(finding)).map((finding) => told(finding, counters, topology));
}

function told(finding: Finding, counters: Counters, topology: JobTopology): Finding {
  switch (finding.kind) {
    case 'comm_slow':
    case 'rnic_flap':
      return isOfPort(finding) ? finding : betweenHosts(finding, counters);
    case 'nvlink_stall':
      return ofLink(finding, counters, topology);
    case 'straggler':
      return ofGpu(finding, counters, topology);
    case 'kv_recompute':
      return ofEngine(finding, counters);
    case 'comm_hang':
      return withErrors(withPortsDown(finding, counters), counters);
    default:
      return finding;
  }
}

const onsetMs = ({ onsetNs }: Finding): number => Number(onsetNs) / 1e6;

/** Of slow transfers between hosts: the one that sends pause frames is at fault; and without a port that went down none flaps. */
function betweenHosts(finding: Finding, { byHost }: Counters): Finding {
  const ports = finding.subject.hosts.flatMap((host) => byHost.get(host) ?? []).filter(({ nic }) => nic !== '');
  const pauses = ports.map((port) => rate(port, 'tx_pause', onsetMs(finding)) || 0);
  const all = pauses.reduce((sum, each) => sum + each, 0);
  const hosts = finding.subject.hosts.filter((host) => 2 * sumOf(ports, pauses, (port) => port.host === host) > all);
  const evidence = { ...finding.evidence, ...(ports.length > 0 ? { tx_pause_per_s: Math.round(all) } : {}) };
  if (all >= MIN_PAUSES && hosts.length === 1) {
    const [host] = hosts as [string];
    const own = sumOf(ports, pauses, (port) => port.host === host);
    const nic = ports.find((port, i) => port.host === host && 2 * (pauses[i] as number) > own)?.nic ?? null;
    const summary = `${finding.summary}; ${host} sends ${Math.round(own)} pause frames a second`;
    return { ...finding, kind: 'comm_slow', summary, subject: { ...finding.subject, hosts, nic }, evidence };
  }
  if (finding.kind !== 'rnic_flap' || !ports.some(tellsOutages)) return { ...finding, evidence };
  const why_not = `no port of its hosts went down, as the counters of ${ports.length} say`;
  return { ...finding, kind: 'comm_slow', evidence, runnerUp: { kind: 'rnic_flap', why_not } };
}

const sumOf = (ports: readonly Source[], values: readonly number[], which: (port: Source) => boolean): number =>
  ports.reduce((sum, port, i) => (which(port) ? sum + (values[i] as number) : sum), 0);

const tellsOutages = ({ series }: Source): boolean =>
  [...series.values()].some(({ role }) => role === 'link_downed' || role === 'port_state');

/** GPUs of the finding's ranks, or of its hosts. */
function gpusOf({ subject }: Finding, { byHost }: Counters, topology: JobTopology): Source[] {
  const slots = subject.ranks.map((rank) => topology.slotOfRank.get(rank) ?? -1);
  const names = new Set(slots.map((slot) => topology.gpus[slot]));
  const hosts = new Set([...subject.hosts, ...slots.map((slot) => topology.hosts[slot] ?? '')]);
  const own = [...hosts].flatMap((host) => byHost.get(host) ?? []);
  return own.filter(
    ({ gpu, rank }) =>
      (gpu !== '' || rank >= 0) && (slots.length === 0 || names.has(gpu) || subject.ranks.includes(rank)),
  );
}

/** Which link is slower than the others of these GPUs, and which GPU's links have most of the errors. */
function ofLink(finding: Finding, counters: Counters, topology: JobTopology): Finding {
  const sources = gpusOf(finding, counters, topology);
  const speeds = sources.map((source) => gauge(source, 'nvlink_speed'));
  const slow = sources.filter((_, i) => (speeds[i] as number) < SLOW_LINK * lowerMedian(speeds));
  const errors = new Map<string, number>();
  for (const source of sources) {
    const grown = grownSince(source, 'nvlink_errors', onsetMs(finding));
    errors.set(source.gpu, (errors.get(source.gpu) ?? 0) + grown);
  }
  const all = [...errors.values()].reduce((sum, each) => sum + each, 0);
  const [worst = '', most = 0] = [...errors].sort(([, some], [, other]) => other - some)[0] ?? [];
  const hasErrors = all >= MIN_LINK_ERRORS;
  if (slow.length === 0 && !hasErrors) return finding;
  const gpu = onlyOf(slow.map((source) => source.gpu)) ?? (hasErrors && 2 * most > all ? worst : null);
  const link = slow.length === 1 ? (slow[0] as Source).link : finding.subject.link;
  const words = [
    ...(slow.length > 0
      ? [`NVLink ${slow.map((each) => `${each.gpu}/${each.link}`).join(', ')} is slower than others`]
      : []),
    ...(hasErrors ? [`NVLink counts ${Math.round(all)} errors${gpu ? `, most of them on ${gpu}` : ''}`] : []),
  ];
  return {
    ...finding,
    summary: [finding.summary, ...words].join('; '),
    evidence: { ...finding.evidence, nvlink_errors: Math.round(all), slow_links: slow.length },
    confidence: 0.95,
    subject: { ...finding.subject, gpu, link },
  };
}

/** The name that all have; undefined: there are none, or several. */
const onlyOf = (names: readonly string[]): string | undefined =>
  new Set(names).size === 1 && names[0] !== '' ? names[0] : undefined;

/** Why a GPU computes slower than others: what holds back its clocks and not theirs, or errors of its memory. */
function ofGpu(finding: Finding, counters: Counters, topology: JobTopology): Finding {
  if (finding.cause !== 'compute' && finding.cause !== 'memory') return finding;
  const own = gpusOf(finding, counters, topology);
  const others = [...counters.sources.values()].filter(({ gpu }) => gpu !== '').filter((each) => !own.includes(each));
  const bits = (gpu: Source): number => gauge(gpu, 'throttle_reasons') || 0;
  const reasons = throttleWords(own.map(bits), others.map(bits));
  const held = sumOver(own, 'throttle_ns', onsetMs(finding)) / 1e9;
  const errors = sumOver(own, 'memory_errors', onsetMs(finding));
  const evidence = {
    ...finding.evidence,
    ...(reasons !== '' ? { throttled: reasons } : {}),
    ...(held > 0 ? { throttled_s: Math.round(held) } : {}),
    ...(errors > 0 ? { memory_errors: Math.round(errors) } : {}),
  };
  const why = [reasons, errors > 0 ? `${Math.round(errors)} memory errors` : ''].filter((word) => word !== '');
  const summary = why.length > 0 ? `${finding.summary}; its GPU: ${why.join(', ')}` : finding.summary;
  return { ...finding, summary, evidence };
}

const sumOver = (sources: readonly Source[], role: 'throttle_ns' | 'memory_errors', sinceMs: number): number =>
  sources.reduce((sum, source) => sum + grownSince(source, role, sinceMs), 0);

/** What the engine's metrics say of its cache and of preemptions. */
function ofEngine(finding: Finding, { sources }: Counters): Finding {
  let [kv, preemptions] = [Number.NaN, 0];
  for (const source of sources.values()) {
    const usage = gauge(source, 'kv_usage');
    if (!(usage <= kv)) kv = usage;
    preemptions += grownSince(source, 'preemptions', onsetMs(finding));
  }
  const evidence = {
    ...finding.evidence,
    ...(kv >= 0 ? { kv_usage: Math.round(kv * 1000) / 1000 } : {}),
    ...(preemptions > 0 ? { preemptions: Math.round(preemptions) } : {}),
  };
  return { ...finding, evidence };
}

/** A port that is down may be what a collective waits for. */
function withPortsDown(finding: Finding, { flapped, sources }: Counters): Finding {
  const down = [...flapped]
    .map((key) => sources.get(key) as Source)
    .filter(({ outages }) => Number.isNaN(outages.at(-1)?.upMs));
  if (down.length === 0) return finding;
  const ports_down = down.map(({ host, nic }) => `${host}/${nic}`).join(', ');
  return {
    ...finding,
    summary: `${finding.summary}; down: ${ports_down}`,
    evidence: { ...finding.evidence, ports_down },
  };
}

/** Who said first that something is wrong, once somebody does: those that follow mostly tell that others have gone. */
function withErrors(finding: Finding, { errors }: Counters): Finding {
  const since = errors.filter(({ atMs }) => atMs >= onsetMs(finding));
  const [first] = since;
  if (!first) return finding;
  const near = since.filter(({ host, atMs }) => host === first.host && atMs <= first.atMs + SAME_ERROR_MS);
  const ranks = [...new Set(near.map(({ rank }) => rank))].sort((a, b) => a - b);
  const summary = `${finding.summary}; rank ${first.rank} was the first to report an error`;
  const evidence = {
    ...finding.evidence,
    ...{ errors: since.length, first_error_rank: first.rank, first_error_ranks: ranks },
  };
  return { ...finding, summary, evidence };
}
