import "@mantine/core/styles/default-css-variables.css";
import "@mantine/core/styles.css";
import "./theme.css";
import { createTheme, MantineProvider, Menu, Modal } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queries } from "./api";
import { watchDepths } from "./lanes/depth";
import { live } from "./live";
import { router } from "./routes";
import { watchRunEnds } from "./runs/pages";

const theme = createTheme({
  cursorType: "pointer",
  defaultRadius: "md",
  respectReducedMotion: true,
  components: {
    // Scrolling is locked by a style that the content policy would refuse.
    Modal: Modal.extend({ defaultProps: { lockScroll: false, centered: true, closeButtonProps: { "aria-label": "Close" } } }),
    // A menu has items, and nothing else that takes the focus.
    Menu: Menu.extend({ defaultProps: { withInitialFocusPlaceholder: false } }),
  },
});

live.connect();
watchDepths();
watchRunEnds();
createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    {/* Everything comes from style sheets: none is written into the page. */}
    <MantineProvider theme={theme} defaultColorScheme="auto" withCssVariables={false} withGlobalClasses={false}>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
