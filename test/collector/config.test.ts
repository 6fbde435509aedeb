import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { parseCollectorConfig } from '../../collector/config.js';

describe('the configuration of a collector', () => {
  it('of deploy/collector.yaml is valid and says what the defaults are', () => {
    const text = readFileSync('deploy/collector.yaml', 'utf8');
    const config = parseCollectorConfig(text, 'collector.yaml');
    const least = parseCollectorConfig('sink: {kind: kafka, brokers: ["kafka:9092"]}', 'x');
    assert.deepEqual({ ...config, segments_dir: least.segments_dir }, least);
  });

  it('names file, line and field of what is wrong', () => {
    const text = 'segments_dir: /dev/shm\nsink:\n  kind: embedded\n  dir: /log\n  color: red\nbatch_rows: 0\n';
    assert.throws(
      () => parseCollectorConfig(text, 'c.yaml'),
      (error: Error) => {
        assert.match(error.message, /^c\.yaml:\d: field "(sink\.color|batch_rows)"/);
        assert.match(error.message, /line [56]/);
        assert.match(error.message, /deploy\/collector\.yaml/);
        return true;
      },
    );
    assert.throws(() => parseCollectorConfig('sink: {kind: paper}', 'c.yaml'), /c\.yaml:1: field "sink/);
    assert.throws(() => parseCollectorConfig('{}', 'c.yaml'), /field "sink"/);
  });
});
