import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { webhookHeaders } from '../../../detector/notify/signature.js';

const serialised = (secret: Buffer) => `whsec_${secret.toString('base64')}`;
const body = '{"summary":"größer als 10 %"}';

test('the reference implementation accepts the signature, and no other body, id or secret', () => {
  const secret = randomBytes(32);
  const headers = webhookHeaders('msg1', Date.now(), body, [secret]);
  assert.deepEqual(new Webhook(serialised(secret)).verify(body, headers), JSON.parse(body));
  assert.throws(() => new Webhook(serialised(secret)).verify(`${body} `, headers));
  assert.throws(() => new Webhook(serialised(secret)).verify(body, { ...headers, 'webhook-id': 'msg2' }));
  assert.throws(() => new Webhook(serialised(randomBytes(32))).verify(body, headers));
});

test('while secrets are rotated both verify', () => {
  const secrets = [randomBytes(24), randomBytes(64)];
  const headers = webhookHeaders('msg1', Date.now(), body, secrets);
  for (const secret of secrets) assert.doesNotThrow(() => new Webhook(serialised(secret)).verify(body, headers));
});

test('without a secret the id and the time of the attempt are still told', () => {
  assert.deepEqual(webhookHeaders('msg1', 1_700_000_000_999, body, []), {
    'webhook-id': 'msg1',
    'webhook-timestamp': '1700000000',
  });
});
