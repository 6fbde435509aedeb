import type { Request, RequestStream } from './request.js';

/** When requests reach the engines. */
export interface Arrivals {
  /** Those that have come by `nowNs`, the time of a step, while the engines hold `held`. */
  due(nowNs: number, held: number, step: number): Request[];
  /** When the next one comes, ns. */
  nextNs(): number;
}

/** As the stream says. */
export class OpenArrivals implements Arrivals {
  readonly #stream: RequestStream;
  #next: Request;

  constructor(stream: RequestStream) {
    this.#stream = stream;
    this.#next = stream.next();
  }

  due(nowNs: number): Request[] {
    const due: Request[] = [];
    while (this.#next.arrivalNs <= nowNs) {
      due.push(this.#next);
      this.#next = this.#stream.next();
    }
    return due;
  }

  nextNs(): number {
    return this.#next.arrivalNs;
  }
}

/** Clients, each of which sends its next request as soon as it has its answer; how many there are depends on the step. */
export class ClosedArrivals implements Arrivals {
  readonly #stream: RequestStream;
  readonly #clients: (step: number) => number;

  constructor(stream: RequestStream, clients: (step: number) => number) {
    this.#stream = stream;
    this.#clients = clients;
  }

  due(nowNs: number, held: number, step: number): Request[] {
    return Array.from({ length: Math.max(0, this.#clients(step) - held) }, () => ({
      ...this.#stream.next(),
      arrivalNs: nowNs,
    }));
  }

  nextNs(): number {
    return 0;
  }
}
