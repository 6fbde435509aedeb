import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { Webhook } from 'standardwebhooks';
import type { AlertmanagerBody } from '../../detector/notify/formats/webhook.js';

export interface Received {
  readonly id: string;
  readonly body: AlertmanagerBody;
}

/** A receiver on loopback that believes only what the reference implementation of Standard Webhooks verifies. */
export class WebhookReceiver {
  readonly name = 'on-call';
  readonly secret = `whsec_${randomBytes(32).toString('base64')}`;
  readonly received: Received[] = [];
  readonly refused: string[] = [];
  readonly #server: Server;

  private constructor() {
    const verifier = new Webhook(this.secret);
    this.#server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const text = Buffer.concat(chunks).toString('utf8');
      const headers = request.headers as Record<string, string>;
      try {
        const body = verifier.verify(text, headers) as AlertmanagerBody;
        this.received.push({ id: headers['webhook-id'] ?? '', body });
        response.writeHead(204).end();
      } catch (error) {
        this.refused.push((error as Error).message);
        response.writeHead(401).end();
      }
    });
  }

  static async start(): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver();
    receiver.#server.listen(0, '127.0.0.1');
    await once(receiver.#server, 'listening');
    return receiver;
  }

  get url(): string {
    const address = this.#server.address();
    return typeof address === 'object' && address ? `http://127.0.0.1:${address.port}/hook` : '';
  }

  /** Resolves once notifications of so many ids have come. */
  async idsUntil(count: number, withinMs = 60_000): Promise<Set<string>> {
    const end = performance.now() + withinMs;
    for (;;) {
      const ids = new Set(this.received.map(({ id }) => id));
      if (ids.size >= count) return ids;
      if (performance.now() > end) throw new Error(`${ids.size} of ${count} notifications came`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
