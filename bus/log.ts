/** Where a bus tells what a person may want to know and no caller can be told: repairs, rebalances, broken connections. */
export type BusLog = (level: 'info' | 'warn' | 'error', message: string) => void;
