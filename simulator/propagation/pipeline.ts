/** A message between stage `boundary` and the next: activations onwards, gradients back. */
export interface Message {
  readonly boundary: number;
  readonly gradient: boolean;
  readonly microbatch: number;
  /** Whether the stage whose action this is sends it. */
  readonly sends: boolean;
}

export type Action =
  | { readonly compute: 'forward' | 'backward'; readonly microbatch: number }
  /** Posted together; the stage goes on when all are done. */
  | { readonly exchange: readonly Message[] };

/** What a stage does in a step, in the order of Megatron's schedule of one forward, one backward. */
export function schedule(stage: number, stages: number, microbatches: number): Action[] {
  const actions: Action[] = [];
  const first = stage === 0;
  const last = stage === stages - 1;
  const exchange = (...messages: (Message | false)[]): void => {
    const present = messages.filter((message) => message !== false);
    if (present.length > 0) actions.push({ exchange: present });
  };
  const message = (boundary: number, gradient: boolean, microbatch: number, sends: boolean): Message => ({
    boundary,
    gradient,
    microbatch,
    sends,
  });
  const recvForward = (m: number): Message | false => !first && message(stage - 1, false, m, false);
  const sendForward = (m: number): Message | false => !last && message(stage, false, m, true);
  const recvBackward = (m: number): Message | false => !last && message(stage, true, m, false);
  const sendBackward = (m: number): Message | false => !first && message(stage - 1, true, m, true);

  const warmup = Math.min(stages - stage - 1, microbatches);
  for (let m = 0; m < warmup; m++) {
    exchange(recvForward(m));
    actions.push({ compute: 'forward', microbatch: m });
    exchange(sendForward(m));
  }
  if (warmup < microbatches) exchange(recvForward(warmup));
  for (let m = warmup; m < microbatches; m++) {
    actions.push({ compute: 'forward', microbatch: m });
    exchange(sendForward(m), recvBackward(m - warmup));
    actions.push({ compute: 'backward', microbatch: m - warmup });
    exchange(sendBackward(m - warmup), m + 1 < microbatches && recvForward(m + 1));
  }
  for (let m = microbatches - warmup; m < microbatches; m++) {
    exchange(recvBackward(m));
    actions.push({ compute: 'backward', microbatch: m });
    exchange(sendBackward(m));
  }
  return actions;
}

/** The side of a pipeline that knows ranks: a stage is one or more lanes (tensor parallel ranks) that act together. */
export interface PipelineActor {
  compute(stage: number, phase: 'forward' | 'backward', microbatch: number): void;
  /** When a lane of a stage can begin its next action, ns. */
  free(stage: number, lane: number): number;
  /** Transfer of the next message, drawn once for all lanes. */
  transferNs(): number;
  /** How much longer messages between a stage and the next one take on a lane. */
  slowness(boundary: number, lane: number): number;
  /** Messages that a lane waited for together, and how long. */
  exchanged(stage: number, lane: number, messages: readonly Message[], startNs: number, endNs: number): void;
}

/**
 * Plays a step of one pipeline: a message moves once its sender and its receiver have both posted it, so a late stage
 * delays its neighbours and, through them, the rest.
 */
export function playPipeline(
  actions: readonly (readonly Action[])[],
  microbatches: number,
  lanes: number,
  actor: PipelineActor,
): void {
  const stages = actions.length;
  const messages = 2 * (stages - 1) * microbatches;
  const id = (m: Message): number => ((m.gradient ? 1 : 0) * (stages - 1) + m.boundary) * microbatches + m.microbatch;
  const transfer = Float64Array.from({ length: messages }, () => actor.transferNs());
  const slow = Float64Array.from({ length: (stages - 1) * lanes }, (_, i) =>
    actor.slowness(Math.floor(i / lanes), i % lanes),
  );
  const posted = { true: new Float64Array(messages * lanes), false: new Float64Array(messages * lanes) };
  posted.true.fill(Number.NaN);
  posted.false.fill(Number.NaN);
  const side = (sends: boolean): Float64Array => posted[sends ? 'true' : 'false'];
  const position = new Int32Array(stages);

  const advance = (stage: number): boolean => {
    const action = actions[stage]?.[position[stage] as number];
    if (!action) return false;
    if ('compute' in action) {
      actor.compute(stage, action.compute, action.microbatch);
    } else {
      for (const m of action.exchange)
        for (let lane = 0; lane < lanes; lane++) side(m.sends)[id(m) * lanes + lane] = actor.free(stage, lane);
      if (action.exchange.some((m) => Number.isNaN(side(!m.sends)[id(m) * lanes]))) return false;
      for (let lane = 0; lane < lanes; lane++) {
        let end = 0;
        for (const m of action.exchange) {
          const place = id(m) * lanes + lane;
          const met = Math.max(posted.true[place] as number, posted.false[place] as number);
          end = Math.max(end, met + (transfer[id(m)] as number) * (slow[m.boundary * lanes + lane] as number));
        }
        actor.exchanged(stage, lane, action.exchange, actor.free(stage, lane), end);
      }
    }
    position[stage] = (position[stage] as number) + 1;
    return true;
  };

  for (let moved = true; moved; ) {
    moved = false;
    for (let stage = 0; stage < stages; stage++) while (advance(stage)) moved = true;
  }
  if (actions.some((list, stage) => (position[stage] as number) < list.length))
    throw new Error('pipeline schedule stands still');
}
