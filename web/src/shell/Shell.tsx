import { ActionIcon, Loader, Menu, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { useEffect } from "react";
import { useInterrupts } from "../inbox/interrupts";
import { useLive } from "../live";
import { useFreshReadings } from "../news";
import { Empty } from "../parts/Empty";
import { CheckIcon, MoonIcon, SunIcon } from "../parts/icons";
import { useApprovals } from "../tasks/approvals";
import { Banner } from "./Banner";
import classes from "./Shell.module.css";
import { SignIn } from "./SignIn";
import { useShownSubject } from "./title";

const SCREENS = [
  { to: "/board", name: "Board" },
  { to: "/runs", name: "Runs" },
  { to: "/flows", name: "Flows" },
  { to: "/inbox", name: "Inbox" },
  { to: "/lanes", name: "Lanes" },
  { to: "/workers", name: "Workers" },
] as const;

export function Shell() {
  const connection = useLive((live) => live.connection);
  const hasSnapshot = useLive((live) => live.hasSnapshot);
  useFreshReadings();
  if (connection === "signed_out") return <SignIn />;
  return (
    <>
      <a className={classes.skip} href="#content" onClick={skip}>
        Skip to the content
      </a>
      <Header />
      <Banner />
      <main id="content" className={classes.content} tabIndex={-1}>
        {hasSnapshot ? <Outlet /> : <Waiting />}
      </main>
    </>
  );
}

/** The address after `#` is the router's: the link only moves the focus. */
function skip(event: React.MouseEvent): void {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

function Header() {
  const path = useRouterState({ select: (state) => state.location.pathname });
  return (
    <header className={classes.header}>
      <Link to="/board" className={classes.name} aria-label="headway">
        <Mark />
        <span>headway</span>
      </Link>
      <nav className={classes.nav} aria-label="Screens">
        {SCREENS.map(({ to, name }) => (
          <Link key={to} to={to} className={classes.link} aria-current={isAt(to, path) ? "page" : undefined} activeProps={{}}>
            {name}
            {name === "Inbox" && <InboxCount />}
          </Link>
        ))}
      </nav>
      <SchemeButton />
      <Title />
    </header>
  );
}

/** Tasks belong to flows, whatever their address. */
function isAt(screen: string, path: string): boolean {
  return path.startsWith(screen) || (screen === "/flows" && (path.startsWith("/tasks") || path.startsWith("/new-flow")));
}

function Mark() {
  return (
    <svg width="22" height="22" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#1f6feb" />
      <g fill="none" stroke="#fff" strokeWidth="3" strokeLinecap="round">
        <path d="M8 11h9" />
        <path d="M8 21h3" opacity=".55" />
        <path d="M16 21h8" />
        <path d="M22 11h2" opacity=".55" />
      </g>
    </svg>
  );
}

/** How much waits for a person: questions of runs, and approvals of tasks. */
function useWaitingCount(): number {
  return (useInterrupts().data?.length ?? 0) + (useApprovals().data?.length ?? 0);
}

function InboxCount() {
  const count = useWaitingCount();
  if (count === 0) return null;
  return (
    <span className={classes.count} aria-label={`${count} waiting`}>
      {count}
    </span>
  );
}

/** The window's title says where one is, and whether somebody waits. */
function Title() {
  const path = useRouterState({ select: (state) => state.location.pathname });
  const subject = useShownSubject();
  const count = useWaitingCount();
  useEffect(() => {
    const screen = path.startsWith("/tasks") ? "Tasks" : SCREENS.find(({ to }) => isAt(to, path))?.name;
    const parts = [subject, screen, "headway"].filter(Boolean);
    document.title = `${count > 0 ? `(${count}) ` : ""}${parts.join(" · ")}`;
  }, [path, subject, count]);
  return null;
}

const SCHEMES = [
  { scheme: "auto", name: "As the system" },
  { scheme: "light", name: "Light" },
  { scheme: "dark", name: "Dark" },
] as const;

function SchemeButton() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const isDark = useComputedColorScheme("light") === "dark";
  return (
    <Menu position="bottom-end" shadow="md">
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="lg" aria-label="Colours">
          {isDark ? <MoonIcon size={18} /> : <SunIcon size={18} />}
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {SCHEMES.map(({ scheme, name }) => (
          <Menu.Item key={scheme} rightSection={colorScheme === scheme && <CheckIcon size={14} />} onClick={() => setColorScheme(scheme)}>
            {name}
            {colorScheme === scheme && <span className="unseen">, chosen</span>}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function Waiting() {
  return (
    <div className={classes.waiting} role="status">
      <Loader size="sm" />
      Looking at what is going on…
    </div>
  );
}

export function NotFound() {
  return (
    <Empty title="There is nothing at this address">
      <Link to="/board">Go to the board</Link>
    </Empty>
  );
}
