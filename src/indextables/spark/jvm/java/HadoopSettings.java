package indextables.spark;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;

/** The explicit settings of a Hadoop configuration. */
final class HadoopSettings {
    private static final String PROVIDERS = "hadoop.security.credential.provider.path";

    /** Keys with one of the prefixes, without Hadoop's own defaults, and secrets from files of providers. */
    static Map read(Configuration given, List prefixes, List secrets, List providers) throws IOException {
        Map found = new HashMap();
        for (int i = 0; i < prefixes.size(); i++) {
            Object[] names = given.getPropsWithPrefix((String) prefixes.get(i)).keySet().toArray();
            for (int j = 0; j < names.length; j++) {
                String key = (String) prefixes.get(i) + (String) names[j];
                if (!isDefault(given, key)) found.put(key, given.get(key));
            }
        }
        StringBuilder files = new StringBuilder();
        for (int i = 0; i < providers.size(); i++) {
            String path = given.get((String) providers.get(i), "").trim();
            if (path.length() > 0) files.append(files.length() == 0 ? "" : ",").append(path);
        }
        if (files.length() == 0) return found;
        Configuration asked = new Configuration(given);
        asked.set(PROVIDERS, files.toString());
        for (int i = 0; i < secrets.size(); i++) {
            char[] secret = asked.getPassword((String) secrets.get(i));
            if (secret != null) found.put(secrets.get(i), new String(secret));
        }
        return found;
    }

    private static boolean isDefault(Configuration given, String key) {
        String[] sources = given.getPropertySources(key);
        return sources != null && sources.length > 0 && sources[sources.length - 1].endsWith("-default.xml");
    }
}
