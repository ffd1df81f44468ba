/**
 * Reads a little after it was asked to, so that many changes make one reading. Never twice at once;
 * again if it was asked meanwhile, or if it failed.
 */
const FAILED_MS = 2_000;

export class Soon {
  private timer: ReturnType<typeof setTimeout> | null = null;
  private isReading = false;
  private isAskedAgain = false;

  constructor(
    private readonly delay_ms: number,
    private readonly read: () => Promise<void>,
  ) {}

  ask(delay_ms = this.delay_ms): void {
    if (this.isReading) this.isAskedAgain = true;
    else this.timer ??= setTimeout(() => void this.begin(), delay_ms);
  }

  /** It is not wanted any more, or is known by now. */
  forget(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    this.isAskedAgain = false;
  }

  private async begin(): Promise<void> {
    this.timer = null;
    this.isReading = true;
    this.isAskedAgain = false;
    const hasFailed = await this.read().then(
      () => false,
      () => true,
    );
    this.isReading = false;
    if (hasFailed) this.ask(FAILED_MS);
    else if (this.isAskedAgain) this.ask();
  }
}
