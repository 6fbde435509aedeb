import { createHmac } from 'node:crypto';

/**
 * Headers of Standard Webhooks 1.0 for one attempt; without secrets there is no signature.
 * @param id constant over the attempts of a notification
 * @param atMs epoch milliseconds of the attempt
 * @param body exactly the bytes that are sent
 */
export function webhookHeaders(
  id: string,
  atMs: number,
  body: string,
  secrets: readonly Uint8Array[],
): Record<string, string> {
  const timestamp = String(Math.floor(atMs / 1000));
  const headers: Record<string, string> = { 'webhook-id': id, 'webhook-timestamp': timestamp };
  const sign = (secret: Uint8Array) =>
    `v1,${createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
  if (secrets.length > 0) headers['webhook-signature'] = secrets.map(sign).join(' ');
  return headers;
}
