import { Button, PasswordInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { answerOf, queries, reasonOf } from "../api";
import { signIn } from "../client";
import { live } from "../live";
import classes from "./SignIn.module.css";

/** The token is given once; the browser keeps a cookie that scripts cannot read (S4). */
export function SignIn() {
  const [token, setToken] = useState("");
  const signing = useMutation({
    mutationFn: () => answerOf(signIn({ body: { token } })),
    onSuccess: () => {
      queries.clear();
      live.ask({ kind: "retry" });
    },
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    signing.mutate();
  }
  return (
    <main className={classes.place}>
      <form className={classes.card} onSubmit={submit}>
        <h1>headway</h1>
        <p>This server asks for a token. Whoever set it up has it, as HEADWAY_TOKEN.</p>
        <PasswordInput
          label="Token"
          value={token}
          onChange={(event) => setToken(event.currentTarget.value)}
          error={signing.error ? reasonOf(signing.error) : null}
          autoComplete="current-password"
          autoFocus
        />
        <Button type="submit" loading={signing.isPending} disabled={token === ""}>
          Sign in
        </Button>
      </form>
    </main>
  );
}
