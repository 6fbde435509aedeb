import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { CollectorProcess } from './collector-process.js';
import { M0, SegmentFile } from './segment-file.js';
import { folder, needsAddon } from './support.js';

async function until<T>(ask: () => Promise<T | undefined>): Promise<T> {
  const end = performance.now() + 20_000;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (performance.now() > end) throw new Error('waited in vain');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Holds the lock of a segment's writer, as an engine that lives, until what it resolves with is called. */
async function holdWriterLock(path: string): Promise<() => void> {
  const program = `import fcntl, struct, sys
file = open(sys.argv[1], 'r+b')
fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 1, 0))
print('held', flush=True)
sys.stdin.read()`;
  const child = spawn('python3', ['-c', program, path], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return () => void child.kill();
}

describe('picket collector', needsAddon, () => {
  it('serves metrics, the trace and readiness, and writes what it has read', async () => {
    const dir = folder();
    const segments = join(dir, 'segments');
    const sink = { kind: 'files', dir: join(dir, 'out') };
    const collector = new CollectorProcess(dir, { segments_dir: segments, sink });
    after(() => collector.stop('SIGKILL'));
    assert.ok(await collector.start());
    const get = (path: string) => fetch(`${collector.url}${path}`);
    const absent = await until(async () => {
      const answer = await get('/readyz');
      return answer.status === 503 ? ((await answer.json()) as { detail: string }) : undefined;
    });
    assert.match(absent.detail, /segments cannot be read/);
    mkdirSync(segments);
    const segment = new SegmentFile(segments, {
      attributes: { job: 'j', rank: 0 },
      createdMonotonicNs: M0,
      createdRealtimeNs: BigInt(Date.now()) * 1_000_000n,
    });
    const mlp = segment.phase('mlp', 'compute');
    segment.step({ step: 1 }, M0);
    segment.begin(mlp, M0);
    segment.end(mlp, M0 + 30_000n);
    segment.close();
    await until(async () => {
      const text = await (await get('/metrics')).text();
      return /^picket_collector_rows_sent_total 2$/m.test(text) ? text : undefined;
    });
    assert.equal((await get('/readyz')).status, 200);
    const { traceEvents } = (await (await get('/trace?seconds=60')).json()) as { traceEvents: { name: string }[] };
    assert.ok(traceEvents.some(({ name }) => name === 'mlp'));
    await collector.stop();
  });

  it('sends what the counters of its host say for as long as an engine lives', async () => {
    const dir = folder();
    const [segments, sysfs] = [join(dir, 'segments'), join(dir, 'sys')];
    const counters = join(sysfs, 'class/infiniband/mlx5_0/ports/1/counters');
    for (const path of [segments, counters]) mkdirSync(path, { recursive: true });
    writeFileSync(join(counters, 'link_downed'), '3\n');
    const sink = { kind: 'embedded', dir: join(dir, 'log') };
    const samples = { sysfs, interval_seconds: 1 };
    const collector = new CollectorProcess(dir, { segments_dir: segments, sink, samples, heartbeat_seconds: 0.2 });
    after(() => collector.stop('SIGKILL'));
    const times = { createdMonotonicNs: M0, createdRealtimeNs: BigInt(Date.now()) * 1_000_000n };
    const segment = new SegmentFile(segments, { attributes: { job: 'j', rank: 0 }, ...times });
    after(await holdWriterLock(segment.path));
    assert.ok(await collector.start());
    await until(async () => {
      const text = await (await fetch(`${collector.url}/metrics`)).text();
      return /^picket_collector_samples_sent_total [1-9]/m.test(text) ? text : undefined;
    });
    segment.close();
    await collector.stop();
  });

  it('says what is wrong with its configuration, its state folder or a damaged file in it, and exits', async () => {
    const dir = folder();
    const sink = { kind: 'files', dir };
    const refused = async (config: object): Promise<string> => {
      const collector = new CollectorProcess(dir, { sink, ...config });
      assert.equal(await collector.start(), false);
      return collector.output.join('\n');
    };
    assert.match(await refused({ poll: 1 }), /^picket: .*collector\.yaml:1: field "poll": is not known/m);
    writeFileSync(join(dir, 'file'), '');
    assert.match(
      await refused({ state_dir: join(dir, 'file', 'x') }),
      /^picket: .*:1: field "state_dir": cannot be used/m,
    );
    writeFileSync(join(dir, 'runs.json'), '{');
    assert.match(await refused({ state_dir: dir }), /^picket: .*runs\.json: not the runs/m);
  });
});
