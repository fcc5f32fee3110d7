import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Every route answers which one it is. The servlet is mapped to everything and matches the path as the
 * container has read it (decoded, normalized, parameters cut), like the frameworks on top of one do.
 */
public final class RouteServlet extends HttpServlet {
    private record Route(String name, Pattern pattern) {}

    private final List<Route> routes = new ArrayList<>();

    @Override
    public void init() {
        // A route a line: its name, a tab, its pattern; the more specific ones come first.
        try (InputStream file = getServletContext().getResourceAsStream("/WEB-INF/routes.tsv")) {
            String text = new String(file.readAllBytes(), StandardCharsets.UTF_8);
            for (String line : text.split("\n")) {
                String[] cells = line.split("\t");
                routes.add(new Route(cells[0], Pattern.compile(cells[1], Pattern.DOTALL)));
            }
        } catch (IOException failure) {
            throw new IllegalStateException(failure);
        }
    }

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String info = request.getPathInfo();
        String path = request.getServletPath() + (info == null ? "" : info);
        for (Route route : routes) {
            if (route.pattern().matcher(path).matches()) {
                response.setHeader("X-Route", route.name());
                return;
            }
        }
        response.sendError(HttpServletResponse.SC_NOT_FOUND);
    }
}
