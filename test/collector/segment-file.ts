import { closeSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { LAYOUT } from '../../native/ts/index.js';
import { KIND, type KindName } from '../../protocol/vocabulary.js';

/** What the generated layout leaves to the addon: offsets within the control block and a phase entry (picket_ring.h). */
const CONTROL = {
  controlSize: 12,
  segmentSize: 16,
  recordSizes: 24,
  capacities: 40,
  offsets: 56,
  pid: 88,
  device: 92,
  startTicks: 96,
  createdRealtime: 112,
  createdMonotonic: 120,
  clockSource: 128,
  gpuUuid: 136,
  gpuName: 184,
  phaseCount: 516,
  clockWritten: 520,
} as const;
const PHASE = { layer: 4, bytes: 8, name: 16, op: 56, group: 80, weight: 120 } as const;
const MAGIC = 0x474e4952544b4350n;
const CLOSED = 2;
const OPEN = 1;

export interface SegmentSpec {
  readonly attributes: object;
  /** Records; a power of two. */
  readonly fences?: number;
  readonly hosts?: number;
  /** Fence times are those of a GPU's clock. */
  readonly gpu?: string;
  readonly pid?: number;
  readonly createdMonotonicNs?: bigint;
  readonly createdRealtimeNs?: bigint;
  /** The writer died; otherwise it ended in order. */
  readonly died?: boolean;
}

export interface StepSpec {
  readonly step: number;
  readonly tokens?: number;
  readonly prefillTokens?: number;
  readonly decodeTokens?: number;
  readonly batch?: number;
  readonly graph?: number;
  readonly microbatch?: number;
  readonly requests?: readonly string[];
}

export const T0 = 1_770_000_000_000_000_000n;
export const M0 = 5_000_000_000_000n;

/**
 * Writes a segment as an engine would, byte by byte and at any time it likes. No process holds its lock: to a reader its
 * writer has gone.
 */
export class SegmentFile {
  readonly path: string;
  readonly #file: number;
  readonly #fences: number;
  readonly #hosts: number;
  readonly #offsets: { fence: number; host: number; phase: number; clock: number };
  #fenceCount = 0;
  #hostCount = 0;
  #phaseCount = 0;
  #clockCount = 0;

  constructor(dir: string, spec: SegmentSpec) {
    const { fences = 4096, hosts = 256, gpu, pid = 1000 } = spec;
    this.#fences = fences;
    this.#hosts = hosts;
    const page = (bytes: number) => Math.ceil(bytes / 4096) * 4096;
    const host = page(4096 + 16 * fences);
    const phase = page(host + 128 * hosts);
    const clock = page(phase + 128 * 1024);
    this.#offsets = { fence: 4096, host, phase, clock };
    const size = page(clock + 64 * 256);
    this.path = join(dir, `${LAYOUT.segmentPrefix}${pid}-${pid * 7}-0`);
    this.#file = openSync(this.path, 'wx+');
    ftruncateSync(this.#file, size);
    const control = Buffer.alloc(4096);
    control.writeBigUInt64LE(MAGIC, LAYOUT.control.magic);
    control.writeUInt16LE(LAYOUT.version.major, LAYOUT.control.versionMajor);
    control.writeUInt32LE(4096, CONTROL.controlSize);
    control.writeBigUInt64LE(BigInt(size), CONTROL.segmentSize);
    [16, 128, 128, 64].forEach((bytes, i) => {
      control.writeUInt32LE(bytes, CONTROL.recordSizes + 4 * i);
    });
    [fences, hosts, 1024, 256].forEach((records, i) => {
      control.writeUInt32LE(records, CONTROL.capacities + 4 * i);
    });
    [4096, host, phase, clock].forEach((offset, i) => {
      control.writeBigUInt64LE(BigInt(offset), CONTROL.offsets + 8 * i);
    });
    control.writeUInt32LE(pid, CONTROL.pid);
    control.writeInt32LE(gpu ? 0 : -1, CONTROL.device);
    control.writeBigUInt64LE(BigInt(pid * 7), CONTROL.startTicks);
    control.writeBigUInt64LE(spec.createdRealtimeNs ?? T0, CONTROL.createdRealtime);
    control.writeBigUInt64LE(spec.createdMonotonicNs ?? M0, CONTROL.createdMonotonic);
    control.writeUInt32LE(gpu ? LAYOUT.clock.gpu : LAYOUT.clock.monotonic, CONTROL.clockSource);
    control.write(gpu ?? '', CONTROL.gpuUuid);
    control.write(gpu ? 'NVIDIA Test' : '', CONTROL.gpuName);
    control.writeUInt32LE(spec.died ? OPEN : CLOSED, LAYOUT.control.state);
    control.write(JSON.stringify(spec.attributes), LAYOUT.control.attributes);
    writeSync(this.#file, control, 0, control.length, 0);
  }

  /** Registers a phase and returns its id. */
  phase(
    name: string,
    kind: KindName,
    facts: { layer?: number; weight?: number; bytes?: number; op?: string; group?: string } = {},
  ): number {
    const entry = Buffer.alloc(LAYOUT.phase.size);
    entry.writeUInt8(KIND[kind], 0);
    entry.writeInt32LE(facts.layer ?? -1, PHASE.layer);
    entry.writeBigInt64LE(BigInt(facts.bytes ?? -1), PHASE.bytes);
    entry.write(name, PHASE.name);
    entry.write(facts.op ?? '', PHASE.op);
    entry.write(facts.group ?? '', PHASE.group);
    entry.writeFloatLE(facts.weight ?? 0, PHASE.weight);
    writeSync(this.#file, entry, 0, entry.length, this.#offsets.phase + entry.length * this.#phaseCount);
    this.#control32(CONTROL.phaseCount, ++this.#phaseCount);
    return this.#phaseCount - 1;
  }

  begin(phase: number, time: bigint, lane = 0): void {
    this.fence(LAYOUT.fence.begin, lane, phase, time);
  }
  end(phase: number, time: bigint, lane = 0): void {
    this.fence(LAYOUT.fence.end, lane, phase, time);
  }

  fence(type: number, lane: number, low: number, time: bigint): void {
    const n = this.#fenceCount++;
    const record = Buffer.alloc(16);
    const lap = BigInt((Math.floor(n / this.#fences) + 1) % 4);
    record.writeBigUInt64LE(time | (lap << 62n), 0);
    record.writeUInt32LE(((type << LAYOUT.fence.typeShift) | (lane << LAYOUT.fence.laneShift) | low) >>> 0, 8);
    record.writeUInt32LE((n + 1) >>> 0, 12);
    writeSync(this.#file, record, 0, 16, this.#offsets.fence + 16 * (n % this.#fences));
    this.#control64(LAYOUT.control.fenceClaimed, BigInt(this.#fenceCount));
  }

  /** A step begins on the lane: its host record, its requests' and the fence that names it. */
  step({ step, ...facts }: StepSpec, time: bigint, lane = 0): void {
    const payload = Buffer.alloc(LAYOUT.step.size, 0xff);
    payload.writeBigInt64LE(BigInt(step), LAYOUT.step.step);
    const requests = facts.requests ?? [];
    const fields = ['tokens', 'prefillTokens', 'decodeTokens', 'batch', 'graph', 'microbatch'] as const;
    for (const field of fields) payload.writeInt32LE(facts[field] ?? -1, LAYOUT.step[field]);
    payload.writeInt32LE(requests.length, LAYOUT.step.requests);
    payload.writeFloatLE(-1, LAYOUT.step.kvUsage);
    const number = this.#host(LAYOUT.host.step, 0, time, payload);
    requests.forEach((request, index) => {
      const text = Buffer.alloc(LAYOUT.request.size);
      text.writeBigUInt64LE(BigInt(number), LAYOUT.request.stepRecord);
      text.writeUInt16LE(index, LAYOUT.request.index);
      text.writeUInt16LE(Buffer.byteLength(request), LAYOUT.request.length);
      text.write(request, LAYOUT.request.text, LAYOUT.request.textSize);
      this.#host(LAYOUT.host.request, 0, time, text);
    });
    this.fence(LAYOUT.fence.link, lane, number & 0xffff, time);
  }

  /** The phase that begins next on the lane is described by this record. */
  call(phase: number, call: { bytes?: number; sequence?: number; microbatch?: number }, time: bigint, lane = 0): void {
    this.fence(LAYOUT.fence.link, lane, this.#host(LAYOUT.host.call, phase, time, callPayload(call)) & 0xffff, time);
  }

  /** A phase of a host thread; times are those of CLOCK_MONOTONIC. */
  mark(
    phase: number,
    begin: bigint,
    end: bigint | undefined,
    facts: { microbatch?: number; thread?: number } = {},
  ): void {
    this.#host(LAYOUT.host.begin, phase, begin, callPayload(facts), facts.thread);
    if (end !== undefined) this.#host(LAYOUT.host.end, phase, end, callPayload({}), facts.thread);
  }

  clock(gpuNs: bigint, monotonicNs: bigint, realtimeNs: bigint, uncertaintyNs = 500n): void {
    const sample = Buffer.alloc(LAYOUT.clock.size);
    sample.writeBigUInt64LE(BigInt(this.#clockCount + 1), 0);
    sample.writeBigUInt64LE(gpuNs, LAYOUT.clock.gpuNs);
    sample.writeBigUInt64LE(monotonicNs, LAYOUT.clock.monotonicNs);
    sample.writeBigUInt64LE(realtimeNs, LAYOUT.clock.realtimeNs);
    sample.writeBigUInt64LE(uncertaintyNs, LAYOUT.clock.uncertaintyNs);
    writeSync(this.#file, sample, 0, 64, this.#offsets.clock + 64 * (this.#clockCount % 256));
    this.#control64(CONTROL.clockWritten, BigInt(++this.#clockCount));
  }

  /** Nothing more is written. */
  close(): void {
    closeSync(this.#file);
  }

  #host(type: number, phase: number, time: bigint, payload: Buffer, thread = 1): number {
    const n = this.#hostCount++;
    const record = Buffer.alloc(LAYOUT.host.size);
    record.writeBigUInt64LE(BigInt(n + 1) << 1n, LAYOUT.host.commit);
    record.writeBigUInt64LE(time, LAYOUT.host.timeNs);
    record.writeUInt16LE(type, LAYOUT.host.type);
    record.writeUInt16LE(phase, LAYOUT.host.phase);
    record.writeUInt32LE(thread, LAYOUT.host.thread);
    payload.copy(record, LAYOUT.host.payload);
    writeSync(this.#file, record, 0, record.length, this.#offsets.host + record.length * (n % this.#hosts));
    this.#control64(LAYOUT.control.hostClaimed, BigInt(this.#hostCount));
    return n;
  }

  #control32(offset: number, value: number): void {
    const word = Buffer.alloc(4);
    word.writeUInt32LE(value);
    writeSync(this.#file, word, 0, 4, offset);
  }

  #control64(offset: number, value: bigint): void {
    const word = Buffer.alloc(8);
    word.writeBigUInt64LE(value);
    writeSync(this.#file, word, 0, 8, offset);
  }
}

function callPayload({ bytes = -1, sequence = -1, microbatch = -1 }): Buffer {
  const payload = Buffer.alloc(LAYOUT.call.size);
  payload.writeBigInt64LE(BigInt(bytes), LAYOUT.call.bytes);
  payload.writeBigInt64LE(BigInt(sequence), LAYOUT.call.sequence);
  payload.writeInt32LE(microbatch, LAYOUT.call.microbatch);
  return payload;
}
